"""What a browser says of pages: what it scrolls sideways, and which lines of code it breaks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--virtual-time-budget=600000",
    "--dump-dom",
)

LOOK = r"""<body><script>
const [pages, width, characters] = ARGUMENTS, found = {};

function scrolled(element, view) {
    const scrolls = /auto|scroll/.test(view.getComputedStyle(element).overflowX);
    return element.clientWidth > 0 && element.scrollWidth > element.clientWidth && (scrolls || element.tagName === "HTML");
}

function broken(code, view) {
    const style = view.getComputedStyle(code), lines = code.textContent.trimEnd().split("\n");
    const height = code.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    return lines.every(line => line.length <= characters) && Math.round(height / parseFloat(style.lineHeight)) > lines.length;
}

async function look(page) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 900px`;
    const loaded = new Promise(done => frame.onload = done);
    frame.src = page;
    document.body.append(frame);
    await loaded;
    await new Promise(done => setTimeout(done, 300));  // scripts of the page wrap its tables
    const inside = frame.contentDocument, view = frame.contentWindow;
    const shown = (what, element) => `${what}: ${element.textContent.trim().slice(0, 60)}`;
    const faults = [
        ...[...inside.querySelectorAll("*")].filter(each => scrolled(each, view)).map(each => shown("scrolled", each)),
        ...[...inside.querySelectorAll("pre > code")].filter(each => broken(each, view)).map(each => shown("broken", each)),
    ];
    frame.remove();
    return faults;
}

(async () => {
    for (const page of pages) found[page] = await look(page);
    const all = document.createElement("pre");
    all.id = "found";
    all.textContent = JSON.stringify(found);
    document.body.append(all);
})();
</script></body>
"""


def browser() -> str | None:
    """The path of a Chromium, where there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def faults(program: str, pages: Sequence[Path], work: Path, *, width: int, characters: int) -> dict[str, list[str]]:
    """What is wrong with pages in a window `width` pixels wide, by the pages' names; pages without a fault are left out.

    characters: a line of code of so many may not be broken. work: an empty folder.
    """
    page, arguments = work / "look.html", [[each.as_uri() for each in pages], width, characters]
    page.write_text(LOOK.replace("ARGUMENTS", json.dumps(arguments)), encoding="utf-8")
    command = [program, *OPTIONS, f"--user-data-dir={work / 'profile'}", f"--window-size={width + 40},900", page.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    answer = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    if answer is None:
        raise RuntimeError(f"{program} looked at no page: {ran.stderr[-2000:]}")
    found: dict[str, list[str]] = json.loads(unescape(answer[1]))
    if len(found) < len(pages):
        raise RuntimeError(f"{program} looked at {len(found)} of {len(pages)} pages")
    return {name.rpartition("/")[2]: wrong for name, wrong in found.items() if wrong}
