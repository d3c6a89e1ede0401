"""Macros: their definitions, and the expansion of their uses on tokens.

Expansion follows C: what comes out of a macro is scanned again, but names of macros that are being expanded are hidden
(each token carries the names that do not expand it). Every token of a macro's body gets the span of the use, and as
`origin` its span in the definition.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler import lexer
from p4compiler.diagnostics import Note, Refusal, counted
from p4compiler.lexer import Token
from p4compiler.sources import SourceSpan, SourceText

MAX_EXPANDED = 500_000  # tokens that all uses together may give
MAX_WORK = 1_000_000  # tokens in arguments, names that are hidden, and characters that # and ## make


@dataclass(frozen=True)
class Macro:
    """A macro; `params` is None where it takes no parentheses, and the last may be ``...``."""

    name: Token
    params: tuple[str, ...] | None
    body: tuple[Token, ...]


class Macros:
    """The macros that are defined at one point of a program."""

    def __init__(self) -> None:
        self.defined: dict[str, Macro] = {}
        self._expanded = 0
        self._work = 0

    def define(self, line: list[Token], directive: SourceSpan) -> None:
        """Obey ``#define``; `line` is what follows it."""
        if not line or line[0].kind != lexer.NAME:
            raise Refusal("#define needs a name", directive)
        name, body = line[0], line[1:]
        params: tuple[str, ...] | None = None
        if body and body[0].text == "(" and body[0].glued:
            params, body = _parameters(body)
        self.defined[name.text] = Macro(name, params, tuple(body))

    def define_text(self, name: str, value: str) -> None:
        """Define a macro from the command line."""
        source = SourceText("<command line>", f"{name} {value}")
        self.define(lexer.tokens(source)[:-1], SourceSpan(source, 0, len(name)))

    def expand(self, tokens: list[Token]) -> list[Token]:
        """The tokens with all uses of macros expanded."""
        if not self.defined or not any(token.text in self.defined or token.text == "__LINE__" for token in tokens):
            return tokens
        out: list[Token] = []
        waiting = tokens[::-1]
        while waiting:
            token = waiting.pop()
            macro = self.defined.get(token.text) if token.kind == lexer.NAME else None
            if macro is None or token.text in token.hidden:
                if token.kind == lexer.NAME and token.text == "__LINE__":
                    token = token._replace(kind=lexer.INT, text=str(token.span.line))
                out.append(token)
                continue
            hidden = token.hidden | {token.text}
            arguments: dict[str, list[Token]] = {}
            if macro.params is not None:
                if not waiting or waiting[-1].text != "(":
                    out.append(token)
                    continue
                given, close = self._arguments(waiting, token, macro)
                hidden = (token.hidden & close.hidden) | {token.text}
                self._spend(sum(map(len, given)), token)
                arguments = self._bind(macro, given, token)
            self._spend(len(hidden) * len(macro.body) // 16, token)  # a hidden name costs less than a token
            placed = self._substitute(macro, arguments, token, hidden)
            self._expanded += len(placed)
            if self._expanded > MAX_EXPANDED:
                raise Refusal(f"the macros of this program expand to more than {MAX_EXPANDED:,} tokens", token.span)
            waiting.extend(reversed(placed))
        return out

    def _spend(self, amount: int, use: Token) -> None:
        """Count work that grows faster than the tokens that come out of it."""
        self._work += amount
        if self._work > MAX_WORK:
            raise Refusal("the macros of this program are nested too deeply, or make names too long", use.span)

    @staticmethod
    def _arguments(waiting: list[Token], use: Token, macro: Macro) -> tuple[list[list[Token]], Token]:
        """The arguments after a use, which are taken from the end of `waiting`, and the parenthesis that ends them."""
        waiting.pop()
        depth, given = 0, [[]]  # type: tuple[int, list[list[Token]]]
        while waiting:
            token = waiting.pop()
            if token.kind == lexer.OP:
                if token.text == ")" and depth == 0:
                    return given, token
                if token.text == "," and depth == 0:
                    given.append([])
                    continue
                depth += (token.text == "(") - (token.text == ")")
            given[-1].append(token)
        raise Refusal(
            f"the arguments of macro {use.text!r} have no ')'", use.span, Note("defined here", macro.name.span)
        )

    @staticmethod
    def _bind(macro: Macro, given: list[list[Token]], use: Token) -> dict[str, list[Token]]:
        params = macro.params or ()
        if not params and given == [[]]:
            return {}
        if params and params[-1] == "...":
            fixed = len(params) - 1
            rest: list[Token] = []
            for number, argument in enumerate(given[fixed:]):
                if number:
                    rest.append(Token(lexer.OP, ",", use.span))
                rest += argument
            return {**dict(zip(params[:fixed], given, strict=False)), "__VA_ARGS__": rest}
        if len(given) != len(params):
            what = f"{counted(len(given), 'argument')} for macro {use.text!r}, which has {len(params)}"
            raise Refusal(what, use.span, Note("defined here", macro.name.span))
        return dict(zip(params, given, strict=True))

    def _substitute(
        self, macro: Macro, arguments: dict[str, list[Token]], use: Token, hidden: frozenset[str]
    ) -> list[Token]:
        """The body at the place of the use, with arguments in place of parameters."""
        out: list[Token] = []
        body = macro.body
        paste = False
        nothing = True  # the operand before ## is
        for position, token in enumerate(body):
            if token.text == "##" and token.kind == lexer.OP:
                paste = True
                continue
            pasted_next = position + 1 < len(body) and body[position + 1].text == "##"
            before = body[position - 1] if position else None
            if token.text in arguments and before is not None and before.text == "#" and before.kind == lexer.OP:
                out[-1] = self._quoted(arguments[token.text], use)
                continue
            if token.text in arguments and token.kind == lexer.NAME:
                argument = arguments[token.text]
                part = list(argument) if paste or pasted_next else self.expand(list(argument))
            else:
                span = SourceSpan(use.span.source, use.span.start, use.span.end, token.span.origin or token.span)
                part = [Token(token.kind, token.text, span, token.glued)]
            if paste and out and part and not nothing:
                first = self._pasted(out.pop(), part[0], use)
                part = [*first, *part[1:]]
            nothing = not part and (nothing or not paste)
            out += part
            paste = False
        return [token._replace(hidden=token.hidden | hidden) for token in out]

    def _quoted(self, tokens: list[Token], use: Token) -> Token:
        self._spend(sum(len(token.text) for token in tokens), use)
        text = "".join(token.text if token.glued or not i else f" {token.text}" for i, token in enumerate(tokens))
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return Token(lexer.STRING, f'"{escaped}"', use.span)

    def _pasted(self, left: Token, right: Token, use: Token) -> list[Token]:
        text = left.text + right.text
        self._spend(len(text), use)
        made = lexer.tokens(SourceText("<pasted>", text))[:-1]
        return [token._replace(span=use.span, glued=bool(i), starts_line=False) for i, token in enumerate(made)]


def _parameters(body: list[Token]) -> tuple[tuple[str, ...], list[Token]]:
    close = next((i for i, token in enumerate(body) if token.text == ")"), None)
    if close is None:
        raise Refusal("the parameters of a macro have no ')'", body[0].span)
    params: list[str] = []
    for position, token in enumerate(body[1:close]):
        if position % 2:
            if token.text != ",":
                raise Refusal("',' expected between the parameters of a macro", token.span)
        elif token.kind != lexer.NAME and token.text != "...":
            raise Refusal("the parameter of a macro is a name", token.span)
        else:
            params.append(token.text)
    return tuple(params), body[close + 1 :]
