"""What `--redact` finds, what it leaves, and that what holds a secret stays as valid as it was."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlake.export.redact import Redaction
from turnlake.export.search import find_in, find_in_cut
from turnlake.export.secrets import ABOUT, CUT_OFF, TRIGGERS, find, mark, replaced

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nabc/+=\n-----END RSA PRIVATE KEY-----"
# name, text before, secret, text behind
SECRETS = [
    ("private-key", "cat id_rsa\n", PEM, "\n$ "),
    ("private-key", "", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", ""),
    ("private-key", "", PEM.replace("\n", "\n+"), "\n"),
    ("aws-key-id", "id: ", "AKIAIOSFODNN7EXAMPLE", " ok"),
    ("github-token", "remote: ", "ghp_" + (LETTERS + LETTERS)[:36], "\n"),
    ("github-token", "", "github_pat_11ABCDEFG0aBcDeFgHiJ_" + LETTERS, ""),
    ("gitlab-token", "=", "glpat-" + LETTERS[:20], ";"),
    ("slack-token", "'", "xoxb-123456789012-" + LETTERS[:24], "'"),
    ("slack-token", "POST https://", "hooks.slack.com/services/T00000000/B00000000/" + LETTERS[:24], " "),
    ("google-key", "?key=", "AIza" + (LETTERS + LETTERS)[:35], "&x=1"),
    ("ai-key", "我的密钥是 ", "sk-testtesttesttest", ""),
    ("ai-key", "", "sk-0123456789abcdef0123456789abcdef", "。"),
    ("ai-key", "(", "sk-ant-api03-" + LETTERS + "_" + LETTERS, ")"),
    ("ai-key", "", "sk-proj-" + LETTERS + "-" + LETTERS, ","),
    ("ai-key", "", "hf_" + (LETTERS + LETTERS)[:34], ""),
    ("service-token", "", "sk_live_" + LETTERS[:24], ""),
    ("service-token", "//registry/:_x ", "npm_" + (LETTERS + LETTERS)[:36], ""),
    ("jwt", "", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", ""),
    ("auth-header", "Authorization: Bearer ", "opaque~value~without~form~1", "\n"),
    ("auth-header", "curl -H 'Authorization: Basic ", "dXNlcjpwYXNzd29yZA==", "'"),
    ("url-password", "postgres://app:", "hunter2", "@db:5432/x"),
    ("url-password", "https://oauth2:", "p4ss", "@github.com/a/b"),
    ("flag", "mysql --password ", "hunter2b", " -h db"),
    ("assigned", "export PGPASSWORD=", "correcthorse", "; psql"),
    ("assigned", "AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\n"),
    ("assigned", "password: ", "hunter2abc", "\n"),
    ("assigned", 'api_key = "', "a b c d", '"'),
    ("assigned", "{'client_secret': '", "abcd-efgh", "'}"),
    ("assigned", '{"token": "', "0123", '"}'),
]  # fmt: skip
HARMLESS = [
    "task-management-and-more-words-here",
    "disk-0123456789abcdef0123",
    '{"inputTokens":10,"max_tokens":4096,"token":null,"password":12345678}',
    "def login(password: str, token=None) -> Token: ...",
    "token = next_token(stream)",
    'password = os.environ["PASSWORD"]',
    "api_key=${API_KEY} password=$PASSWORD token=<your-token>",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "http://localhost:8080/a@b",
    "the password must have a digit; basic authentication works",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    '{"a":"Enter password:","b":"token:","c":"x"}',
    "eyJhbGciOiJIUzI1NiJ9",
]


def in_json(text: str, depth: int) -> str:
    """The text in a string of JSON, that in another, …"""
    for _ in range(depth):
        text = json.dumps({"x": text}, ensure_ascii=False)
    return text


def out_of_json(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.loads(text)["x"]
    return text


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("name", "before", "secret", "behind"), SECRETS, ids=[f"{one[0]}-{i}" for i, one in enumerate(SECRETS)]
)
def test_a_secret_is_replaced_however_deep_it_is(name: str, before: str, secret: str, behind: str, depth: int) -> None:
    text = in_json(before + secret + behind, depth)
    found = find_in(pa.array([text]))[0]
    assert [one.name for one in found] == [name]
    assert out_of_json(replaced(text, found), depth) == before + mark(name) + behind


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert find(text) == []
    assert find(in_json(text, 1)) == []


def test_every_form_has_an_example_and_a_description() -> None:
    assert {one[0] for one in SECRETS} == set(TRIGGERS)
    assert set(ABOUT) == {*TRIGGERS, CUT_OFF}


def test_a_quoted_value_ends_at_its_own_quote() -> None:
    inner = json.dumps({"password": 'a"b\\c"d', "user": "me"})
    for depth in (0, 1, 2):
        text = in_json(inner, depth)
        new = replaced(text, find(text))
        assert json.loads(out_of_json(new, depth)) == {"password": mark("assigned"), "user": "me"}


def test_a_value_without_an_end_does_not_run_out_of_its_string() -> None:
    text = json.dumps({"a": 'password="hunter2', "b": 'q"z'})
    assert json.loads(replaced(text, find(text))) == {"a": f'password="{mark("assigned")}', "b": 'q"z'}


def test_a_quote_that_is_open_at_the_end_of_a_line_hides_that_line_only() -> None:
    for depth in range(3):
        text = in_json('token="abcdef\nnext "line"', depth)
        assert out_of_json(replaced(text, find(text)), depth) == f'token="{mark("assigned")}\nnext "line"'


def test_the_second_time_there_is_nothing_to_find() -> None:
    for _, before, secret, behind in SECRETS:
        once = replaced(before + secret + behind, find(before + secret + behind))
        assert find(once) == []


def test_an_excerpt_may_end_inside_a_secret() -> None:
    texts = pa.array(["x sk-tes", "x ghp_" + LETTERS[:5], "say password", None, "x sk-testtesttesttest"])
    assert {index: [one.name for one in found] for index, found in find_in_cut(texts).items()} == {
        0: [CUT_OFF], 1: [CUT_OFF], 4: ["ai-key"]
    }  # fmt: skip


PIECES = st.sampled_from(
    [
        *("password", "token", "--secret ", "://u:", "@h", "hunter2abc", "null", "é", "\ud83d"),
        *('"', "'", "\\", ":", "=", " ", "\n", ",", "{", "}", "[", "]"),
        *("sk-testtesttesttest", "-----BEGIN PRIVATE KEY-----", "Bearer 0123456789abcdef"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


@given(VALUES, st.integers(0, 2))
def test_json_stays_json_and_keeps_its_shape(value: Any, depth: int) -> None:
    text = json.dumps(value)
    for _ in range(depth):
        text = json.dumps([text])
    new = json.loads(replaced(text, find(text)))
    for _ in range(depth):
        new = json.loads(new[0])
    assert shape(new) == shape(value)


def shape(value: Any) -> Any:
    """The value without its strings; two keys may have become one."""
    if isinstance(value, dict):
        return "an object"
    return [shape(item) for item in value] if isinstance(value, list) else "a text"


@given(TEXTS)
def test_a_text_without_trigger_holds_no_secret(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert find_in(pa.array([text])) == ({0: find(text)} if find(text) else {})


def test_long_hostile_texts_are_read_in_linear_steps() -> None:
    """No wall clock: what would need a square of these lengths would not end."""
    for piece in (
        "-----BEGIN PRIVATE KEY-----",
        'password="',
        "eyJaaaaaaaaa.",
        "://a:",
        "Authorization:",
        "sk-a-",
        "\\",
        "token=",
    ):
        find(piece * 20_000)
    find('password="' + "\\" * 100_000 + "x" * 100_000)


def test_lists_and_nulls_are_redacted_too() -> None:
    rows = pa.table(
        {
            "type": pa.array(["a", None, "sk-testtesttesttest"]),
            "tool_call_arguments": pa.array([["sk-testtesttesttest", None], None, []], pa.list_(pa.string())),
            "n": pa.array([1, None, 3]),
            "stream": pa.nulls(3, pa.string()),
        }
    )
    redaction = Redaction({})
    assert redaction.batch("raw.events", rows).to_pydict() == {
        "type": ["a", None, mark("ai-key")],
        "tool_call_arguments": [[mark("ai-key"), None], None, []],
        "n": [1, None, 3],
        "stream": [None] * 3,
    }
    assert redaction.counts["raw.events"] == {"ai-key": 2}


def test_a_secret_is_found_anywhere_in_a_long_text() -> None:
    rng = random.Random(7)
    for _ in range(20):
        words = ["word"] * 2000
        words.insert(rng.randrange(2000), "sk-testtesttesttest")
        text = " ".join(words)
        assert replaced(text, find(text)) == text.replace("sk-testtesttesttest", mark("ai-key"))


def test_the_page_lists_every_form(root: Path) -> None:
    page = (root / "docs" / "sharing.md").read_text("utf-8")
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    assert listed[-len(ABOUT) :] == [f"| `{name}` | {about} |" for name, about in ABOUT.items()]
