from llmgw.engines.promtext import Sample, samples, total

SAID = r"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a\"b\\c"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 4 1700000000000
llamacpp:requests_deferred 0
odd{} NaN
no sample at all
broken{x="1"} many
"""


def test_samples_have_names_labels_and_numbers_and_the_rest_is_passed_over() -> None:
    found = list(samples(SAID))

    assert found[0] == Sample("vllm:num_requests_running", {"engine": "0", "model_name": 'a"b\\c'}, 3.0)
    assert found[2] == Sample("llamacpp:requests_deferred", {}, 0.0)
    assert [sample.name for sample in found[3:]] == ["odd"]


def test_a_metric_is_added_up_over_its_labels() -> None:
    assert total(SAID, "vllm:num_requests_running") == 7.0


def test_a_metric_that_is_not_there_is_unknown_and_not_zero() -> None:
    assert total(SAID, "vllm:num_requests") is None
    assert total(SAID, "llamacpp:requests_deferred") == 0.0
