"""Patches written out for `git am`, with a letter that says what they are for."""

from __future__ import annotations

import re
from pathlib import Path

from detperf_plugins.errors import DetperfError
from detperf_plugins.patching.series import Stack

__all__ = ["LETTER", "cover_letter", "export"]

# No .patch at the end, so that `git am *.patch` leaves it out.
LETTER = "0000-cover-letter.txt"


def export(stack: Stack, names: list[str], folder: Path, sender: str | None = None) -> list[Path]:
    """Write the patches called by `names`, all for none, with what they depend on, and a cover letter.

    Args:
        folder: made if missing; it may hold no other patches.
        sender: "Name <mail>" that becomes the author, as a host's licence agreement asks for.

    Returns:
        The files written, the letter first.

    Raises:
        DetperfError: the folder holds patches already or cannot be written, or `sender` is no such address.
    """
    if sender is not None and not re.fullmatch(r"[^<>\n]+ <[^<>\s]+@[^<>\s]+>", sender):
        raise DetperfError(f"--from {sender!r} is not of the form 'Name <name@example.org>'")
    numbers = stack.with_dependencies(stack.find(names))
    files = [(LETTER, cover_letter(stack, numbers).encode())]
    for position, number in enumerate(numbers, 1):
        data = stack.mails[number].path.read_bytes()
        head, gap, body = data.partition(b"\n\n")
        mark = f"Subject: [PATCH {position}/{len(numbers)}] ".encode()
        head = re.sub(rb"^Subject: (\[[^\]]*\] )?", lambda _: mark, head, flags=re.MULTILINE)  # noqa: B023
        if sender is not None:
            author = f"From: {sender}".encode()
            head = re.sub(rb"^From: .*(\n[ \t].*)*", lambda _: author, head, flags=re.MULTILINE)  # noqa: B023
        files.append((stack[number].file, head + gap + body))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = sorted(path.name for path in folder.glob("*.patch"))
        if present:
            raise DetperfError(f"{folder} holds patches already ({present[0]}, ...): name an empty folder")
        for name, content in files:
            (folder / name).write_bytes(content)
    except OSError as error:
        raise DetperfError(f"{folder} cannot be written: {error.strerror or error}") from error
    return [folder / name for name, _ in files]


def cover_letter(stack: Stack, numbers: list[str]) -> str:
    """What the patches are for, one by one, what was measured, and how to apply them."""
    series = stack.series
    lines = [
        f"Subject: [PATCH 0/{len(numbers)}] {series.host}: {len(numbers)} patches for {stack.name}",
        "",
        f"For {series.repository} at {stack.commit}",
        f"({stack.about}).",
        "",
        f"    git checkout -b my-branch {stack.commit}",
        "    git am *.patch",
        "",
    ]
    for position, number in enumerate(numbers, 1):
        patch, mail = stack[number], stack.mails[number]
        files = [f"    {change.path} (+{change.added} -{change.removed})" for change in mail.changes]
        needs = [f"{numbers.index(n) + 1}/{len(numbers)}" for n in patch.depends]
        lines += [
            f"{position}/{len(numbers)} {patch.title}",
            f"  {patch.purpose}",
            f"  Measured: {patch.measured}",
            f"  Test: {patch.tests}",
            *([f"  Needs: {', '.join(needs)}"] if needs else []),
            *files,
            "",
        ]
    return "\n".join(lines)
