"""Bounded numbers of requests: --hypothesis-profile=slow asks for ten times as many."""

from hypothesis import HealthCheck, Phase, settings

common = {
    "database": None,
    "deadline": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("quick", max_examples=300, **common)
settings.register_profile("slow", max_examples=3000, **common)
settings.load_profile("quick")
