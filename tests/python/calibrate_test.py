"""oomb-plan calibrate on the CPU: its children are real, small runs of oomb-train."""

import json
import signal
import subprocess
import time


def command(program, out, *flags):
    return [program("oomb-plan"), "calibrate", "--device", "cpu", "--train", program("oomb-train"), "--out", out, *flags]


def test_the_profile_of_this_processor_is_one_that_plans_with_it_read(program, tmp_path):
    out = tmp_path / "cpu.json"
    result = subprocess.run(command(program, out, "--name", "this processor"), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "1/4 tiny: lean" in result.stdout and "attention_backward" in result.stdout
    profile = json.loads(out.read_text())
    assert profile["name"] == "this processor" and profile["measured"]
    assert set(profile["attention_forward"]["fp32"]) == {"64", "128"}
    assert "oomb-plan calibrate" in profile["gemm"]["fp32"]["source"]
    # Between a slow single core and a large machine.
    assert 1e-5 < profile["attention_backward"]["fp32"]["64"]["tflops"] < 100
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                                  "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
                                  "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 512,
                                  "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
                                  "tie_word_embeddings": False}))
    plan = subprocess.run([program("oomb-plan"), "--model", config, "--context", "1K", "--chunk", "256", "--dtype", "fp32",
                           "--hardware", out], capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    assert "this processor" in plan.stdout


def test_an_interrupted_calibration_leaves_nothing(program, tmp_path):
    out = tmp_path / "cpu.json"
    child = subprocess.Popen(command(program, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 1, errors
    assert "interrupted; nothing was written" in errors
    assert list(tmp_path.iterdir()) == []
