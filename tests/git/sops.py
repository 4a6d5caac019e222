"""Keys, an encrypted file, and a stand-in for the sops program where the real one is missing."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from gitkruise.git.plumbing.process import SEARCH_PATH
from tests.conftest import need

# Made for these tests; they open nothing else.
KEY: Final = "AGE-SECRET-KEY-1TA30L0KVWYAV82JUQ47GLQQ33SXCY49KTQTV8WD5PD9WPU5UJ7JSVTGJUN"
OTHER: Final = "AGE-SECRET-KEY-12RXRQC0W3DQPJQU83CTME8S7PCZARR3PSYWXVXHQ9CNSCJFF4AXQ05V629"
ENCRYPTED: Final = (Path(__file__).parent / "data" / "encrypted.yaml").read_text()
PLAIN: Final = ("hunter2-${KEPT}", "5432", "aHVudGVyMi1iaW5hcnk=")  # in the file's order
CANARY: Final = "hunter2"
_BUILT: Final = Path(__file__).parent / "sealing" / "bin"

# Speaks as sops 3 does on the paths we rely on: arguments, environment, exit status, errors.
_PROGRAM: Final = """#!{python} -I
import hashlib, json, os, re, sys
args = sys.argv[1:]
assert args[0] == "--decrypt" and args[-1] == "/dev/stdin", args
text = open("/dev/stdin").read()
if {key!r} not in os.environ["SOPS_AGE_KEY"].splitlines():
    sys.exit("Failed to get the data key required to decrypt the SOPS file.\\n{canary}")
if "--ignore-mac" not in args and hashlib.sha256(text.encode()).hexdigest() != {digest!r}:
    sys.exit("MAC mismatch. File has {canary}")
for sealed, plain in {pairs!r}:
    text = text.replace('"' + sealed + '"', sealed).replace(sealed, json.dumps(plain))
sys.stdout.write(text)
"""


def real() -> str:
    """Return the path of sops, built or installed; "" when it is not."""
    return shutil.which("sops", path=f"{_BUILT}:{SEARCH_PATH}") or shutil.which("sops") or ""


def real_folder() -> str:
    """The folder it is in. Skips the test where there is none."""
    need("sops", present=bool(real()), how="make sops-assets")
    return str(Path(real()).parent)


def stand_in(folder: Path) -> str:
    """A folder with a program `sops` that opens `ENCRYPTED`, whole or in parts, and no other."""
    sealed = [s for s in re.findall(r"ENC\[[^\]]*type:str\]", ENCRYPTED) if len(s) < 150]
    script = _PROGRAM.format(
        python=sys.executable, key=KEY, canary=CANARY,
        digest=hashlib.sha256(ENCRYPTED.encode()).hexdigest(),
        pairs=list(zip(sealed, PLAIN, strict=True)),
    )  # fmt: skip
    return program(folder, script)


def program(folder: Path, script: str) -> str:
    """A folder with `script` as its program `sops`."""
    folder.mkdir(exist_ok=True)
    file = folder / "sops"
    file.write_text(script)
    file.chmod(0o755)
    return str(folder)
