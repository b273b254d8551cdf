"""Sphinx: the documentation as a site. `scripts/docs` builds it, warnings as errors.

Pages that would repeat a source are made from it before every build (reference_pages.py,
performance_plots.py), into docs/generated/, which is not kept.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

project = "Quire"
copyright = "the authors of Quire"
release = re.search(
    r"project\(quire VERSION ([0-9.]+)", (DOCS.parent / "CMakeLists.txt").read_text()
)[1]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Quire {release}"
html_copy_source = False
html_extra_path = ["../build/docs/doxygen"]  # the folder c, which Doxygen made
html_static_path = ["site.css"]
html_css_files = ["site.css"]
highlight_language = "none"
# Existing pages start sections where their numbering wants it.
suppress_warnings = ["myst.header"]
linkcheck_ignore = [r"https?://.*"]


def repository_links(_app, page, source):
    """Links to files of the repository that are no pages become plain names."""

    def plain(found):
        text, target = found.groups()
        inside = (DOCS / Path(page).parent / target.split("#")[0]).resolve()
        if inside.suffix == ".md" and inside.is_relative_to(DOCS):
            return found[0]
        if not inside.exists():
            raise ValueError(f"{page}: the link to {target} leads nowhere")
        return f"`{inside.relative_to(DOCS.parent)}`" if text != f"`{target}`" else text

    if page == "index":
        # Pages that nobody has put into the contents yet come last.
        others = [p.stem for p in sorted(DOCS.glob("*.md")) if f"\n{p.stem}\n" not in source[0]]
        others = [name for name in others if name != "index"]
        source[0] = source[0].replace("extending\n", "\n".join(["extending", *others]) + "\n")
    source[0] = re.sub(r"(?<!\!)\[([^\]]+)\]\(((?!https?:|#|mailto:)[^)\s]+)\)", plain, source[0])


def make_pages(_app):
    import performance_plots
    import reference_pages

    folder = DOCS / "generated"
    folder.mkdir(exist_ok=True)
    reference_pages.write_all(DOCS.parent, folder)
    performance_plots.write_all(DOCS.parent, folder)


def setup(app):
    app.connect("builder-inited", make_pages)
    app.connect("source-read", repository_links)
    app.connect("env-get-outdated", lambda *_: ["index"])  # pages may have come
