"""Completion for shells: the words that may come next, as a script that the shell reads once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.usage import UsageError

__all__ = ["SHELLS", "script"]

BASH = """\
_odradek() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{pairs}
        *) case "${{COMP_WORDS[1]}}" in
{singles}
            *) words="{first}" ;;
        esac ;;
    esac
    [ "$COMP_CWORD" = 1 ] && words="{first}"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} = 0 ] && COMPREPLY=($(compgen -f -- "$word"))
}}
complete -F _odradek odradek
"""
ZSH = "autoload -Uz bashcompinit && bashcompinit\n"


def _bash(options: Mapping[str, Sequence[str]]) -> str:
    groups: dict[str, list[str]] = {}
    singles: dict[str, list[str]] = {}
    pairs = []
    for name, words in options.items():
        first, _, second = name.partition(" ")
        if second:
            groups.setdefault(first, []).append(second)
            pairs.append(f'        "{name}") words="{" ".join(words)}" ;;')
        else:
            singles[first] = list(words)
    for group, names in groups.items():
        singles.setdefault(group, [])[:0] = names
    lines = [f'            {first}) words="{" ".join(words)}" ;;' for first, words in singles.items()]
    return BASH.format(pairs="\n".join(pairs), singles="\n".join(lines), first=" ".join(singles))


def _fish(options: Mapping[str, Sequence[str]]) -> str:
    lines = []
    for name, words in options.items():
        first, _, second = name.partition(" ")
        lines.append(f"complete -c odradek -n __fish_use_subcommand -a {first}")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            lines.append(f"complete -c odradek -n '{seen}' -a {second}")
            seen += f"; and __fish_seen_subcommand_from {second}"
        lines += [f"complete -c odradek -n '{seen}' -l {word.removeprefix('--')}" for word in words]
    return "\n".join(dict.fromkeys(lines)) + "\n"


SHELLS = {"bash": _bash, "zsh": lambda options: ZSH + _bash(options), "fish": _fish}


def script(shell: str, options: Mapping[str, Sequence[str]]) -> str:
    """The script for a shell; `options` are those of each command, by its name of one or two words.

    Raises UsageError for a shell that there is not.
    """
    if shell not in SHELLS:
        raise UsageError(f"There is no completion for {shell}: there is {', '.join(SHELLS)}.")
    return SHELLS[shell](options)
