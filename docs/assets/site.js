// A table or a block of code that is wider than the page says that it scrolls, and can be scrolled by keyboard.
function mark() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    const wide = box.scrollWidth > box.clientWidth + 1
    const holder = box.matches("code") ? box.parentElement : box
    holder.classList.toggle("wide", wide && !box.matches("code"))
    if (wide) {
      box.tabIndex = 0
      if (!box.matches("code")) {
        box.setAttribute("role", "region")
        box.setAttribute("aria-label", document.documentElement.lang.startsWith("zh") ? "可以横向滚动的表格" : "Table that scrolls sideways")
      }
    } else {
      box.removeAttribute("tabindex")
    }
  }
}
addEventListener("load", () => { mark(); setTimeout(mark, 300) })
addEventListener("resize", mark)
