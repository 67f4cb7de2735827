// To the search, a hyphen before a word means "without it"; who looks for an option types --fail-if.
const post = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === 2) message = {...message, data: message.data.replace(/(^|\s)-+(?=\S)/g, "$1")}
  return post.call(this, message, ...rest)
}

// A table, a block of code or a formula that is wider than the page can be scrolled by keyboard; a table says so.
function mark(box) {
  const wide = box.scrollWidth > box.clientWidth + 1
  const table = box.matches(".md-typeset__scrollwrap")
  if (wide && box.getAttribute("tabindex") !== "0") box.tabIndex = 0
  if (!wide && box.hasAttribute("tabindex")) box.removeAttribute("tabindex")
  box.classList.toggle("wide", wide && table)
  if (wide && table) {
    box.setAttribute("role", "region")
    box.setAttribute("aria-label", document.documentElement.lang.startsWith("zh") ? "可以横向滚动的表格" : "Table that scrolls sideways")
  }
}
const changed = changes => changes.forEach(change => mark(change.target))
const sizes = new ResizeObserver(changed)
const attributes = new MutationObserver(changed) // Material takes tabindex from code where nothing can hover
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code, .md-typeset .fm-math")) {
    sizes.observe(box)
    attributes.observe(box, {attributeFilter: ["tabindex"]})
  }
})
