"""How an interpreter was built: compilers optimize it in different ways, and its speed depends on that."""

import subprocess

__all__ = ["built"]

_ASK = """
import platform, sysconfig
given = sysconfig.get_config_var("CONFIG_ARGS") or ""
flags = " ".join(str(value) for value in sysconfig.get_config_vars().values())
named = [name for name, signs in {
    "PGO": ("--enable-optimizations" in given, "-fprofile-use " in sysconfig.get_config_var("PY_CORE_CFLAGS") or ""),
    "LTO": ("--with-lto" in given, "-flto" in flags),
}.items() if True in signs]
print(platform.python_implementation(), platform.python_version(), "with " + " and ".join(named) if named else
      "(sysconfig names neither PGO nor LTO)")
"""


def built(python: str) -> str:
    """Version and optimizations of an interpreter, as its own `sysconfig` names them."""
    asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=True)
    return asked.stdout.strip()
