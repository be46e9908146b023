"""What MkDocs does beside its own work when it builds the site.

- A guide may link to a file of the repository, as in `[results](../results/paper/settings.md)`: the link works where
  the repository is read, and the file becomes part of the site. Tables in Markdown and programs become pages.
- A notebook becomes a page: its text, its code and the output that is stored in it.
- Formulas become MathML, which browsers draw without a script.
- The grid world, one file that works alone, gets a link back to the site.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
MATHML, LIMITS = "http://www.w3.org/1998/Math/MathML", ("max", "min", "argmax")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository that the guides link to, and those that these link to."""
    waiting = [(PurePosixPath("docs", file.src_uri), file.content_string) for file in files.documentation_pages()]
    while waiting:
        path, text = waiting.pop()
        for address in LINK.findall(text):
            target = PurePosixPath(normpath(path.parent / address))
            here = ROOT / target
            if "://" in address or target.parts[0] in ("docs", "..") or not here.is_file():
                continue
            uri = page_of(target).as_posix()
            if uri in files.src_uris:
                continue
            if target.suffix == ".ipynb":
                files.append(File.generated(config, target.as_posix(), abs_src_path=str(here)))  # to download
            if target.suffix in PAGES:
                content = PAGES[target.suffix](target, here.read_text(encoding="utf-8"))
                files.append(File.generated(config, uri, content=content))
                waiting.append((target, content))
            else:
                files.append(File.generated(config, uri, abs_src_path=str(here)))
    return files


def page_of(path: PurePosixPath) -> PurePosixPath:
    """Return where the site has a file of the repository, in MkDocs's names of sources."""
    return path.with_name(path.name + ".md") if path.suffix in PAGES and path.suffix != ".md" else path


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Let links from guides to files of the repository lead to the copies in the site."""
    is_guide = page.file.generated_by is None
    home = PurePosixPath("docs" if is_guide else ".", page.file.src_uri).parent

    def lead(found: re.Match[str]) -> str:
        target = PurePosixPath(normpath(home / found[1]))
        if "://" in found[1] or (is_guide and target.parts[0] == "docs"):
            return found[1]
        if target.parts[0] == "docs":
            target = target.relative_to("docs")
        depth = len(PurePosixPath(page.file.src_uri).parts) - 1
        return "../" * depth + page_of(target).as_posix()

    return LINK.sub(lead, markdown)


def on_page_content(content: str, **_: object) -> str:
    """Turn formulas into MathML."""

    def draw(found: re.Match[str]) -> str:
        is_block = found[2] == "["
        formula = mathml(html.unescape(found[3]).strip(), is_block)
        return f'<div class="formula">{formula}</div>' if is_block else formula

    return FORMULA.sub(draw, content)


def mathml(formula: str, is_block: bool) -> str:
    """Return a formula of LaTeX in MathML; in a line of its own, what a maximum is over stands below it."""
    ElementTree.register_namespace("", MATHML)
    tree = ElementTree.fromstring(convert(formula, display="block" if is_block else "inline"))
    for node in tree.iter(f"{{{MATHML}}}msub"):
        if is_block and (node[0].text or "").strip() in LIMITS:
            node.tag = f"{{{MATHML}}}munder"
    return ElementTree.tostring(tree, encoding="unicode")


def on_post_build(config: MkDocsConfig) -> None:
    """Link the grid world to the site."""
    page = Path(config.site_dir, "grid-world.html")
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<!-- site -->", '<a href="index.html">Documentation</a>'), encoding="utf-8")


def program_page(path: PurePosixPath, text: str) -> str:
    """Return the page of a program."""
    return f"# {path}\n\n```python\n{text}```\n"


def notebook_page(path: PurePosixPath, text: str) -> str:
    """Return the page of a notebook with the outputs stored in it: text and PNG images."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text'])}```")
            elif image := output.get("data", {}).get("image/png"):
                base64.b64decode(image, validate=True)
                parts.append(f'<img alt="" src="data:image/png;base64,{image.strip()}">')
    return "\n\n".join(parts) + f'\n\n<a href="{path.name}" download>Download the notebook</a>\n'


PAGES = {".md": lambda _, text: text, ".py": program_page, ".ipynb": notebook_page}
"""Suffix of a file -> (its path, its text) -> its page in Markdown."""
