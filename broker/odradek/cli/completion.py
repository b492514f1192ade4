"""Shell completion: a script with all words that may come next, which the shell reads once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.cli.usage import UsageError

__all__ = ["SHELLS", "script"]

BASH = """\
_odradek() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{pairs}
        *) case "${{COMP_WORDS[1]}}" in
{singles}
            *) words="{first}" ;;
        esac ;;
    esac
    [ "$COMP_CWORD" = 1 ] && words="{first}"
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}} $before" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} = 0 ] && COMPREPLY=($(compgen -f -- "$word"))
}}
complete -F _odradek odradek
"""
Options = Mapping[str, Sequence[str]]
"""Words by command name, of one or two words."""
Values = Mapping[tuple[str, str], Sequence[str]]
"""Words by command name and option; the option of an argument is empty."""
ZSH = "autoload -Uz bashcompinit && bashcompinit\n"


def _bash(options: Options, values: Values) -> str:
    groups: dict[str, list[str]] = {}
    singles: dict[str, list[str]] = {}
    pairs = []
    for name, words in options.items():
        first, _, second = name.partition(" ")
        words = [*values.get((name, ""), ()), *words]
        if second:
            groups.setdefault(first, []).append(second)
            pairs.append(f'        "{name}") words="{" ".join(words)}" ;;')
        else:
            singles[first] = list(words)
    for group, names in groups.items():
        singles.setdefault(group, [])[:0] = names
    lines = [f'            {first}) words="{" ".join(words)}" ;;' for first, words in singles.items()]
    told = [
        f'        {_pattern(name, option)}) words="{" ".join(names)}" ;;'
        for (name, option), names in values.items()
        if option
    ]
    return BASH.format(
        pairs="\n".join(pairs), singles="\n".join(lines), first=" ".join(singles), values="\n".join(told)
    )


def _pattern(name: str, option: str) -> str:
    """The first two words of a command line and the one before the cursor, as a pattern of the shell."""
    return f'"{name} {option}"' if " " in name else f'"{name} "*" {option}"'


def _fish(options: Options, values: Values) -> str:
    lines = []
    for name, words in options.items():
        first, _, second = name.partition(" ")
        lines.append(f"complete -c odradek -n __fish_use_subcommand -a {first}")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            lines.append(f"complete -c odradek -n '{seen}' -a {second}")
            seen += f"; and __fish_seen_subcommand_from {second}"
        lines += [
            f"complete -c odradek -n '{seen}' -l {word.removeprefix('--')}" + _offer(values.get((name, word), ()))
            for word in words
        ]
        if (name, "") in values:
            lines.append(f"complete -c odradek -n '{seen}'{_offer(values[name, ''])}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _offer(names: Sequence[str]) -> str:
    return f" -x -a '{' '.join(names)}'" if names else ""


SHELLS: Mapping[str, Callable[[Options, Values], str]] = {
    "bash": _bash,
    "zsh": lambda options, values: ZSH + _bash(options, values),
    "fish": _fish,
}


def script(shell: str, options: Options, values: Values) -> str:
    """The script for a shell: the long options of each command, and the names that they accept.

    Raises UsageError for an unknown shell.
    """
    if shell not in SHELLS:
        raise UsageError(f"There is no completion for {shell}: there is {', '.join(SHELLS)}.")
    return SHELLS[shell](options, values)
