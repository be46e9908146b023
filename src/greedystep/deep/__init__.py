"""DQN agents: one configurable learner, trained in compiled JAX programs."""
