"""No credential stays in a text, and plain words do."""

import pytest

from llmgw.runtime.redaction import redact


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [redacted]"),
        ("{'authorization': 'Bearer abc.def-ghi'}", "{'authorization': 'Bearer [redacted]'}"),
        ("authorization: abcdefgh", "authorization: [redacted]"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic [redacted]"),
        ("sent Basic dXNlcjpwYXNzd29yZA== to it", "sent Basic [redacted] to it"),
        ("x-api-key: 0123456789", "x-api-key: [redacted]"),
        ('"api_key": "0123456789"', '"api_key": "[redacted]"'),
        ('{"password": "two words, and more"}', '{"password": "[redacted]"}'),
        ("asked with sk-llmgw-AbCd_ef-123 today", "asked with sk-llmgw-[redacted] today"),
        ("asked with sk-proj-AbCdef123 today", "asked with sk-[redacted] today"),
        ("HF_TOKEN=hf_AbCdEfGh1234", "HF_TOKEN=[redacted]"),
        ("HUGGING_FACE_HUB_TOKEN='hf_AbCdEfGh1234'", "HUGGING_FACE_HUB_TOKEN='[redacted]'"),
        ("downloading with hf_AbCdEfGh1234", "downloading with hf_[redacted]"),
        ("password=hunter2 user=me", "password=[redacted] user=me"),
        ("password=p@ss,w0rd;x! user=me", "password=[redacted] user=me"),
        ("password: 12345678", "password: [redacted]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("key id AKIAIOSFODNN7EXAMPLE used", "key id AKIA[redacted] used"),
        ("run: server --api-key 0a1b2c3d4e --port 8000", "run: server --api-key [redacted] --port 8000"),
        ("run: vllm --hf-token abcDEF123456", "run: vllm --hf-token [redacted]"),
        ("given --api-key=abcdefghijklmnop", "given --api-key=[redacted]"),
        ("GET https://me:hunter2@host/x", "GET https://me:[redacted]@host/x"),
        ("clone https://abcdefghijklmnop1234@host/x", "clone https://[redacted]@host/x"),
        ("postgresql+x://me:p%40ss@host:5432/db", "postgresql+x://me:[redacted]@host:5432/db"),
        ("GET https://h/f?sv=1&sig=a%2Fb%3D&x=1", "GET https://h/f?sv=1&sig=[redacted]&x=1"),
        ("GET https://h/f?X-Amz-Signature=0a1b2c3d&y=2", "GET https://h/f?X-Amz-Signature=[redacted]&y=2"),
        ("GET /f?token=abcd1234", "GET /f?token=[redacted]"),
        ("Cookie: llmgw_session=abc.def; theme=dark", "Cookie: [redacted]"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123 ok", "jwt eyJ[redacted] ok"),
        ("using nvapi-AbCd_1234 and ghp_0123456789abcdef0123", "using nvapi-[redacted] and ghp_[redacted]"),
    ],
)
def test_a_credential_is_cut_and_what_names_it_stays(line: str, shown: str) -> None:
    assert redact(line) == shown
    assert redact(redact(line)) == shown


@pytest.mark.parametrize(
    "line",
    [
        "task-list of 5 entries",
        "12 tokens were generated, max_tokens=4096, n_tokens = 512",
        "the token bucket is full",
        "print_info: BOS token        = 151643 '<bos>'",
        "print_info: general.basename str = Basic Model",
        "disk-sk-1",
        "the bearer token is missing",
        "basic configuration of the key-value cache",
        "GET https://host:8443/v1/models HTTP/1.1",
        "llama_kv_cache: key = f16, value = f16, size = 448.00 MiB",
        "authorization failed",
        "a password is wanted",
        "ssh://git@host/x",
    ],
)
def test_plain_words_are_left_alone(line: str) -> None:
    assert redact(line) == line


@pytest.mark.parametrize(
    "text",
    [
        "- token http://" + "a." * 20_000,
        "key " + "a:" * 20_000,
        "token " + "--a-" * 10_000,
        "a://" * 10_000,
        "token=" + "\t" * 40_000,
    ],
)
@pytest.mark.timeout(20)
def test_a_text_made_to_be_slow_takes_time_in_proportion_to_its_length(text: str) -> None:
    assert len(redact(text)) <= len(text) + 100
