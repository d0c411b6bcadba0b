"""What secrets look like: one entry a kind, as docs/sharing.md lists them."""

from __future__ import annotations

import re
from typing import NamedTuple

# A form begins where a word does: behind anything but a letter or digit, or behind an escape that ends in one.
BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"


class Form(NamedTuple):
    """What one kind of secret looks like.

    `pattern` is Python's; where it has a group `secret`, that alone is replaced. `trigger` is RE2's and true of every
    text the pattern finds something in. Neither repeats what may be empty.
    """

    name: str
    about: str
    pattern: re.Pattern[str]
    trigger: str


def _form(name: str, about: str, pattern: str, trigger: str) -> Form:
    return Form(name, about, re.compile(pattern), trigger)


def _word(name: str, about: str, pattern: str, trigger: str) -> Form:
    return _form(name, about, f"{BEGIN}(?:{pattern})", trigger)


_KEY_TEXT = r"(?:\\+[nrt]|[A-Za-z0-9+/=:,.()|>→\s]|-(?!-{4}))"
_ANY_KEY = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

FORMS = (
    _form(
        "private-key",
        "blocks `-----BEGIN … PRIVATE KEY-----`, to their end or as far as they go",
        rf"-----BEGIN {_ANY_KEY}"
        rf"(?:{_KEY_TEXT}{{0,20000}}?-----END {_ANY_KEY}|(?:\\+[nrt]|[A-Za-z0-9+/=\s]){{0,20000}})",
        "PRIVATE KEY",
    ),
    _word(
        "aws-key-id",
        "`AKIA` or `ASIA` and 16 capitals or digits",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        "(?:AKIA|ASIA)[A-Z0-9]{16}",
    ),
    _word(
        "github-token",
        "`ghp_`, `gho_`, `ghu_`, `ghs_`, `ghr_`, `github_pat_`",
        r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}",
        "gh[pousr]_|github_pat_",
    ),
    _word(
        "gitlab-token",
        "`glpat-` and the other `gl…-` prefixes",
        r"gl(?:pat|dt|rt|rtr|ptt|oas|cbt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,300}",
        "gl[a-z]{2,5}-",
    ),
    _word(
        "slack-token",
        "`xoxb-` and the like, `xapp-`, addresses of incoming webhooks",
        r"xox[a-z]-[A-Za-z0-9-]{10,250}|xapp-[A-Za-z0-9-]{10,250}"
        r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_/-]{20,200}",
        r"xox[a-z]-|xapp-|hooks\.slack\.com",
    ),
    _word(
        "google-key",
        "`AIza…`, `ya29.…`, `GOCSPX-…`",
        r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,2000}|GOCSPX-[A-Za-z0-9_-]{20,100}",
        r"AIza|ya29\.|GOCSPX-",
    ),
    _word(
        "ai-key",
        "`sk-…` (DeepSeek, OpenAI, Anthropic, OpenRouter), and keys of Hugging Face, Groq, xAI, Replicate, NVIDIA",
        r"sk-(?:[a-z0-9]{2,12}-){1,3}[A-Za-z0-9_-]{16,400}|sk-[A-Za-z0-9]{16,400}[A-Za-z0-9_-]{0,400}"
        r"|hf_[A-Za-z0-9]{30,100}|gsk_[A-Za-z0-9]{30,100}|xai-[A-Za-z0-9]{30,200}|r8_[A-Za-z0-9]{30,100}"
        r"|nvapi-[A-Za-z0-9_-]{30,200}",
        "sk-|hf_|gsk_|xai-|r8_|nvapi-",
    ),
    _word(
        "service-token",
        "tokens of Stripe, npm, PyPI, Docker, SendGrid, DigitalOcean, Telegram bots",
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{24,100}|npm_[A-Za-z0-9]{36}"
        r"|pypi-[A-Za-z0-9_-]{50,400}|dckr_pat_[A-Za-z0-9_-]{20,100}|SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{30,60}"
        r"|do[opr]_v1_[a-f0-9]{64}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
        r"[sr]k_(?:live|test)_|whsec_|npm_|pypi-|dckr_pat_|SG\.|_v1_|[0-9]:AA",
    ),
    _word(
        "jwt",
        "JSON web tokens: `eyJ….eyJ….…`",
        r"eyJ[A-Za-z0-9_-]{8,8000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,2000})?",
        r"eyJ[A-Za-z0-9_-]{8,}\.eyJ",
    ),
    _form(
        "auth-header",
        "`Bearer` or `Basic` and 16 or more characters with a digit; 8 or more behind `Authorization:`",
        r"(?i:bearer|basic)[ ]{1,4}(?=[A-Za-z._~+/=-]{0,400}[0-9])(?P<secret>[A-Za-z0-9._~+/=-]{16,4000})"
        r"|(?i:authorization)(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}(?:\\*[\"'])?"
        r"(?i:(?:bearer|basic|token|apikey|key)[ ]{1,4})?(?P<behind_name>[A-Za-z0-9._~+/=-]{8,4000})",
        "(?i)bearer |basic |authorization",
    ),
    _form(
        "url-password",
        "the password in `scheme://user:password@host`",
        r":(?:\\?/){2}[^\s/:@\"'\\<>]{0,100}:(?P<secret>[^\s/@\"'\\<>${\[*][^\s/@\"'\\<>]{0,200})@",
        r":(?:\\?/){2}[^\s/:@]*:[^\s/@]+@",
    ),
    _form(
        "flag",
        "the value behind `--password`, `--token`, `--api-key`, `--secret` and the like",
        r"--(?:[a-z]{1,20}-){0,3}(?:password|passwd|passphrase|token|secret|api-key|access-key|secret-key)[ ]{1,4}"
        r"(?P<secret>[^\s\"'\\$<{\[*-][^\s\"'\\]{5,400})",
        "--(?:[a-z]+-)*(?:password|passwd|passphrase|token|secret|api-key|access-key|secret-key) ",
    ),
)
