"""Write everything that an audit leaves for its readers, each file whole or not at all."""

from __future__ import annotations

from pathlib import Path

from hubaudit.files import remove_file, write_file
from hubaudit.report.html import to_html
from hubaudit.report.markdown import to_markdown
from hubaudit.report.plots import save_plots
from hubaudit.report.schema import Report

__all__ = ["check_writable", "write_report"]

PLOT_FOLDER = "plots"


def check_writable(folder: Path | str) -> None:
    """See before a long audit that its report can be written.

    Args:
        folder: Where the files will go; it is made if missing.

    Raises:
        OutOfDiskError: If the disk is full.
        InputError: If the folder cannot be written to.
    """
    remove_file(write_file(Path(folder) / ".hubaudit-probe", b"can this be written?"))


def write_report(report: Report, folder: Path | str) -> dict[str, Path]:
    """Write `report.json`, `report.md`, `report.html` and the folder `plots` of PNG files.

    The JSON is written first: it holds every figure, and the other files can be made from it again.

    Args:
        report: The report.
        folder: Where the files go; it is made if missing, and older files of these names are replaced.

    Returns:
        The paths by name: `json`, `md`, `html`, and `plots`, the folder.

    Raises:
        OutOfDiskError: If the disk is full; a file that was there before stays as it was.
        InputError: If the folder cannot be written to.
    """
    folder = Path(folder)
    paths = {"json": write_file(folder / "report.json", report.to_json().encode("utf-8"))}
    paths["md"] = write_file(folder / "report.md", to_markdown(report, plot_folder=PLOT_FOLDER).encode("utf-8"))
    paths["html"] = write_file(folder / "report.html", to_html(report).encode("utf-8"))
    save_plots(report, folder / PLOT_FOLDER)
    paths["plots"] = folder / PLOT_FOLDER
    return paths
