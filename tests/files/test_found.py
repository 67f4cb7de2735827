"""The files behind a pattern: each once, and what cannot be read is named."""

from __future__ import annotations

import os

import pytest

from fleetmetrics import files
from fleetmetrics.errors import DataError
from fleetmetrics.files.found import look

pytestmark = pytest.mark.numpy_only


def made(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("y,p\n1,0.5\n")


def test_a_file_counts_once_though_links_in_several_matched_folders_lead_to_it(tmp_path):
    made(tmp_path, "a.csv", "elsewhere/b.csv", "day1/c.csv", "day2/d.csv")
    (tmp_path / "day1" / "to_a.csv").symlink_to(tmp_path / "a.csv")
    for day in ("day1", "day2"):
        (tmp_path / day / "to_b.csv").symlink_to(tmp_path / "elsewhere" / "b.csv")
    found = [os.path.relpath(each, tmp_path) for each in files.find(f"{tmp_path}/[ad]*")]
    assert found in (
        ["a.csv", "day1/c.csv", "day1/to_b.csv", "day2/d.csv"],
        ["a.csv", "day1/c.csv", "day2/d.csv", "day2/to_b.csv"],
    )


def test_what_is_no_data_in_a_matched_folder_is_named_and_never_opened(tmp_path):
    made(tmp_path, "day1/a.csv", "day2/b.csv")
    os.mkfifo(tmp_path / "day1" / "pipe")  # who reads it waits for a writer
    (tmp_path / "day2" / "gone.csv").symlink_to(tmp_path / "nowhere")
    told = [f"{tmp_path}/day1/pipe: not a file or folder", f"{tmp_path}/day2/gone.csv: a broken link"]
    for given in (tmp_path, f"{tmp_path}/day*"):
        paths, bad = look(given)
        assert [os.path.relpath(each, tmp_path) for each in paths] == ["day1/a.csv", "day2/b.csv"] and bad == told
        with pytest.raises(DataError, match=r"day1/pipe: not a file or folder \(2 folders or links cannot be read\)"):
            files.find(given)


def test_a_matched_folder_that_is_hidden_stands_for_nothing(tmp_path):
    made(tmp_path, ".hidden/a.csv", "_hidden/b.csv")
    for pattern in (".h*", "_h*"):
        with pytest.raises(DataError, match="a pattern that matches one"):
            files.find(f"{tmp_path}/{pattern}")


def test_a_file_in_a_matched_folder_without_permission_is_named(tmp_path, monkeypatch):
    made(tmp_path, "day1/a.csv", "day2/a.csv", "day3/other.csv")
    lstat = os.lstat

    def closed(path, *given, **more):
        if "day2/" in os.fspath(path):
            raise PermissionError(13, "Permission denied")
        return lstat(path, *given, **more)

    monkeypatch.setattr(os, "lstat", closed)
    paths, bad = look(f"{tmp_path}/day*/a.csv")
    assert paths == [f"{tmp_path}/day1/a.csv"] and bad == [
        f"{tmp_path}/day2/a.csv: it cannot be read: Permission denied"
    ]


def test_where_nothing_can_be_read_the_reason_is_named_and_an_empty_folder_beside_it_is_none(tmp_path):
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "gone.csv").symlink_to(tmp_path / "nowhere")
    for given in (tmp_path, f"{tmp_path}/*"):
        for act in (files.find, look):
            with pytest.raises(DataError, match=r"day/gone\.csv: a broken link$"):
                act(given)
    made(tmp_path, "a.csv")
    paths, bad = look([tmp_path / "a.csv", tmp_path / "day"])
    assert paths == [f"{tmp_path}/a.csv"] and bad == [f"{tmp_path}/day/gone.csv: a broken link"]


def test_a_file_where_a_pattern_has_a_folder_is_no_match_and_no_error(tmp_path):
    made(tmp_path, "top.csv", "day1/a.csv")
    assert files.find(f"{tmp_path}/*/a.csv") == [f"{tmp_path}/day1/a.csv"]


def test_a_folder_counts_once_though_links_lead_around_in_a_circle(tmp_path):
    made(tmp_path, "data/a.csv", "data/below/b.csv")
    (tmp_path / "data" / "below" / "up").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "again").symlink_to(tmp_path / "data" / "below")
    assert [os.path.relpath(each, tmp_path) for each in files.find(tmp_path)] == ["data/a.csv", "data/below/b.csv"]


def test_an_entry_that_two_patterns_match_is_named_once(tmp_path):
    made(tmp_path, "a.csv")
    for name in ("xb", "b"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    _, bad = look([f"{tmp_path}/*.csv", f"{tmp_path}/*b", f"{tmp_path}/b*"])
    assert bad == [f"{tmp_path}/b: a broken link", f"{tmp_path}/xb: a broken link"]


def test_a_folder_of_any_depth_that_cannot_be_listed_is_named_also_before_a_fixed_name(tmp_path, monkeypatch):
    made(tmp_path, "1/a.csv", "2/below/a.csv")
    scandir = os.scandir

    def closed(path="."):
        if os.fspath(path).rstrip("/").endswith("/2"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    paths, bad = look(f"{tmp_path}/**/a.csv")
    assert paths == [f"{tmp_path}/1/a.csv"]
    assert bad == [f"{tmp_path}/2: this folder cannot be listed: Permission denied"]


def test_a_url_of_this_machine_is_its_path_and_finds_and_names_the_same(tmp_path, monkeypatch):
    made(tmp_path, "od d/a.csv", "od d/deep/b[1].csv", "od d/_hidden/c.csv", "od d/50%25.csv")
    (tmp_path / "od d" / "gone.csv").symlink_to(tmp_path / "nowhere")
    folder = tmp_path / "od d"
    wanted = look(folder)
    assert len(wanted.paths) == 3 and wanted.bad == [f"{folder}/gone.csv: a broken link"]
    for url in (folder.as_uri(), f"file://{folder}", f"local://{folder}", f"FILE://localhost{folder}"):
        assert look(url) == wanted
        assert look(f"{url}/**") == look(f"{folder}/**")
    for path in wanted.paths:
        assert files.find(f"file://{path}") == [path]
    assert files.find((folder / "deep" / "b[1].csv").as_uri()) == [f"{folder}/deep/b[1].csv"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="would count twice, for 'od d' and 'file://"):
        files.find(["od d", folder.as_uri()])
    with pytest.raises(DataError, match=r"gone.csv: a broken link"):
        files.find(folder.as_uri())


def test_an_entry_elsewhere_that_is_neither_file_nor_folder_is_named(monkeypatch):
    from pyarrow import fs

    from fleetmetrics.files import places

    system, _ = fs.FileSystem.from_uri("mock:///")
    system.create_dir("day")
    with system.open_output_stream("day/a.csv") as file:
        file.write(b"y,p\n1,0.5\n")
    links = [fs.FileInfo("day/b.csv", type=kind) for kind in (fs.FileType.NotFound, fs.FileType.Unknown)]

    class WithLinks:
        def get_file_info(self, given):
            found = system.get_file_info(given)
            return [*found, *links] if isinstance(found, list) else found

    monkeypatch.setattr(places, "_place", lambda url: places._Place(WithLinks(), "day", "mock://h/", ""))
    paths, bad = look("mock://h/day")
    assert paths == ["mock://h/day/a.csv"]
    assert bad == ["mock://h/day/b.csv: a broken link", "mock://h/day/b.csv: not a file or folder"]
    with pytest.raises(DataError, match="a broken link"):
        files.find("mock://h/day")


def test_a_hard_link_is_the_same_file(tmp_path):
    made(tmp_path, "day/a.csv", "other/c.csv")
    os.link(tmp_path / "day" / "a.csv", tmp_path / "day" / "b.csv")
    os.link(tmp_path / "day" / "a.csv", tmp_path / "other" / "d.csv")
    for given in ("day", "day/*", "day/[ab]*"):
        assert files.find(f"{tmp_path}/{given}") == [f"{tmp_path}/day/a.csv"]
    assert files.find(f"{tmp_path}/*/*") == [f"{tmp_path}/day/a.csv", f"{tmp_path}/other/c.csv"]
    for given in (("day", "other"), ("day/a.csv", "day/b.csv"), ("other/d.csv", "day")):
        with pytest.raises(DataError, match="would count twice"):
            files.find([f"{tmp_path}/{each}" for each in given])
