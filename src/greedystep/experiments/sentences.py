"""Every sentence of the paper that can be checked, from the abstract to the conclusion, with its evidence.

Evidence are claims of experiments (`greedystep reproduce`), and tests that show the sentence or a counterexample; their
verdicts are computed in `sentence_verdicts`. Sentences are in our words.

Left out are: definitions and notation; what the paper says about others' success or motives; matters of taste (easy,
simple, natural, novel); how its own runs were set up (tasks, seeds, tuning, libraries); and its appendix, which we do
not have. "First of its kind" is included, since a test answers it.
"""

from __future__ import annotations

from dataclasses import dataclass

BEYOND_THE_PAPER = ("fig2-like-published", "fig3-like-published", "fig3-like-published-small")
BEYOND_THE_PAPER += ("fig3-mixed-comparison", "fig3-greedy-beside-training")
BEYOND_THE_PAPER += ("luck-for-skill", "luck-ahead", "presets-agree", "settings-one-for-all")
BEYOND_THE_PAPER += ("protocol-twice", "protocol-twice-greedy-play", "protocol-like-published")
BEYOND_THE_PAPER += ("protocol-mixed-comparison", "protocol-greedy-beside-training")
BEYOND_THE_PAPER += ("evaluation-twice", "evaluation-overestimation")
BEYOND_THE_PAPER += ("released-first-looks-ahead", "released-last-is-greedy-step", "released-drawing")
BEYOND_THE_PAPER += ("auto-as-good", "auto-better-than-single")
BEYOND_THE_PAPER += ("offline-narrow", "offline-broad", "offline-greedy-step")
"""Claims of experiments that are not the paper's: checks of our baselines, and findings of our own."""


@dataclass(frozen=True)
class CheckedBy:
    """A test as evidence for or against a sentence."""

    test: str
    """pytest's node id of the test."""
    supports: bool
    """True if the test asserts what the sentence says, False if it asserts a counterexample."""
    says: str
    """What the test asserts, in words."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the paper, with its evidence."""

    id: str
    where: str
    says: str
    evidence: tuple[str | CheckedBy, ...]
    """Ids of claims, and `CheckedBy` tests."""


def sentence(id: str, where: str, says: str, *evidence: str | CheckedBy) -> Sentence:
    """Make a `Sentence`: its id, where the paper says it, what it says, and the evidence."""
    return Sentence(id, where, says, evidence)


def shows(file: str, test: str, says: str) -> CheckedBy:
    """Return the evidence of a test that asserts what a sentence says."""
    return CheckedBy(f"tests/test_{file}.py::test_{test}", True, says)


def refutes(file: str, test: str, says: str) -> CheckedBy:
    """Return the evidence of a test that asserts a counterexample to a sentence."""
    return CheckedBy(f"tests/test_{file}.py::test_{test}", False, says)


# fmt: off

# -- tests that several sentences refer to ----------------------------------------------------------------------------

CONVERGES = shows("theory", "theorems_2_and_3_iterates_reach_the_optimum_from_anywhere_at_rate_gamma",
    "from any q the error shrinks by γ in every iteration")
FIXED_POINT = shows("theory", "theorem_1_the_optimum_is_a_fixed_point_of_both_forms",
    "Q* is left as it is, in both forms")
COIN = refutes("theory", "counterexample_1_the_definition_breaks_theorem_4_and_lemma_1",
    "a coin: one step is exact, the defined operator errs by 0.45")
SHORT_HORIZON = refutes("theory", "counterexample_3_theorem_5_needs_a_horizon_beyond_the_depth",
    "with N = 1 the rate is γ, not γ²")
FAST = shows("theory", "theorem_5_holds_inside_from_below_with_a_horizon_beyond_the_depth",
    "rate γ^(n+1) from q <= Q*, with N > n and policies that are optimal only where they come")
LOGS = shows("tabular", "on_deterministic_logs_greedy_step_converges_to_the_empirical_optimum",
    "on any log without chance the table becomes the optimum of the log")
NO_POLICY = shows("claims_theory", "greedy_step_is_given_no_probabilities_and_no_policy",
    "rewards, discounts and values are all that it is given")
MORE_DATA = refutes("theory", "more_data_make_the_sampled_operator_worse_by_hand",
    "where chance decides, its bias grows with the data, towards 0.45 on a value of 0.45")
RECURSION = shows("returns", "greedy_step_is_the_largest_n_step_return",
    "one pass from the end gives the maximum over all n")
ONE_STEP_CHAIN = shows("tabular", "greedy_step_with_horizon_one_needs_an_episode_for_every_step_of_the_chain",
    "one-step backups need an episode for every step of a chain")

SENTENCES = (
    # -- abstract ------------------------------------------------------------------------------------------------------
    sentence("abstract-variance", "Abstract",
        "Multi-step off-policy corrections in policy iteration have a large variance.", "importance-sampling-variance"),
    sentence("abstract-one-step", "Abstract",
        "Methods of value iteration are off-policy by nature, but learn one step at a time.",
        "table1-one-step-optimality", "fig1-n-iterations", ONE_STEP_CHAIN),
    sentence("abstract-equation", "Abstract",
        "A multi-step Bellman optimality equation holds for the optimal value function.", "theorem-1", FIXED_POINT),
    sentence("abstract-rate", "Abstract",
        "The multi-step value iteration converges to the optimal value function at a rate of γ^n.",
        "table1-greedy-step-definition", "theorem-5", CONVERGES, SHORT_HORIZON),
    sentence("abstract-linear", "Abstract", "Its computational complexity is only linear.", "complexity-in-steps"),
    sentence("abstract-any-data", "Abstract",
        "The algorithms safely use data collected by arbitrary policies, without correction.",
        "table1-no-correction", "sampled-safe", LOGS, MORE_DATA),
    sentence("abstract-reliable", "Abstract; again in Section 1", "Experiments show that the methods are reliable.",
        "fig3-reliable"),
    sentence("abstract-state-of-the-art", "Abstract; again in Section 1",
        "They achieve state-of-the-art performance on standard benchmarks.",
        "fig3-outperforms", "fig3-state-of-the-art"),
    # -- introduction and preliminaries --------------------------------------------------------------------------------
    sentence("intro-trade-off", "Section 1",
        "A large bootstrapping step propagates what the data say quickly; a small one relies on what was learned.",
        "horizon-faster", ONE_STEP_CHAIN),
    sentence("intro-tuned", "Section 1",
        "A fixed prior over the steps, as in TD(λ), usually has to be tuned case by case.", "fig3-case-by-case"),
    sentence("intro-side-effects", "Section 1",
        "Off-policy methods of policy iteration suffer from the high variance of products of ratios.",
        "importance-sampling-variance"),
    sentence("intro-both-policies", "Section 1",
        "They need both the behaviour's and the target's probabilities for these ratios.",
        shows("claims_theory", "importance_sampling_and_retrace_must_be_given_the_behaviours_probabilities",
            "importance sampling, Retrace and Q(σ) are given both")),
    sentence("intro-value-iteration-safe", "Section 1",
        "Value iteration can safely use data of any behaviour policy without correction.",
        "table1-one-step-optimality",
        shows("tabular_forms", "the_expected_form_converges_to_the_optimum_of_any_log",
            "any log's optimum is reached, with chance too")),
    sentence("intro-step-by-step", "Section 1", "Value iteration propagates values step by step.",
        "fig1-n-iterations", ONE_STEP_CHAIN),
    sentence("intro-converges", "Section 1", "Greedy-Step value iteration converges to the optimal value function.",
        "table1-greedy-step-definition", CONVERGES),
    sentence("intro-rates", "Section 1",
        "Its rate is γ^n under some condition, γ² under a loose one, and γ in the worst case.",
        "theorem-5", "theorem-5-squared", "lemma-1-contraction", FAST),
    sentence("intro-linear", "Section 1", "The computational complexity is linear.", "complexity-in-steps"),
    sentence("intro-first", "Section 1",
        "It is the first multi-step value iteration with an exponential rate and linear complexity.",
        refutes("theory", "with_the_greedy_policy_from_q_below_its_backup_it_is_modified_policy_iteration",
            "with the greedy policy, from q <= Bq, its iterates are those of modified policy iteration (1978)")),
    sentence("intro-unbiased", "Section 1", "The operator is unbiased with data collected by any behaviour policy.",
        "table1-no-correction", "sampled-safe", FIXED_POINT, MORE_DATA),
    sentence("preliminaries-bellman", "Section 2",
        "Q* is reached by iterating the Bellman optimality operator, whose fixed point it is.",
        "table1-one-step-optimality",
        shows("experiments", "optimal_q_is_a_fixed_point_of_the_bellman_operator",
            "Q* found by policy iteration is a fixed point")),
    # -- Section 3: Greedy-Step value iteration ------------------------------------------------------------------------
    sentence("vi-highway", "Section 3",
        "Rolling out policies for several steps lets high-credit information flow across long horizons at once.",
        "fig1-two-iterations"),
    sentence("vi-converges", "Section 3; again as Theorem 3", "Iterating the operator converges to Q* from any start.",
        "table1-greedy-step-definition", CONVERGES),
    sentence("vi-theorem-1", "Theorem 1", "For any set of policies and any N >= 1, Q* = G Q*.",
        "theorem-1", FIXED_POINT),
    sentence("vi-rewritten", "Proof of Theorem 1",
        "The operator can be rewritten with its maximum outside of the expectation.", "proofs-form", COIN),
    sentence("vi-policy-below", "Proof of Theorem 1",
        "Following any policy for some steps and then acting optimally gives at most Q*.", "proofs-below"),
    sentence("vi-good-policies", "Section 3",
        "The method converges faster when a behaviour policy performs well over a period.",
        "good-policy-faster", "theorem-5"),
    sentence("vi-two-iterations", "Section 3, Figure 1",
        "On the N-horizon problem it needs 2 iterations, value iteration N.",
        "fig1-two-iterations", "fig1-n-iterations"),
    sentence("vi-example-faster", "Section 3, Figure 1", "The example shows that the method converges faster.",
        "fig1-faster"),
    sentence("vi-any", "Section 3.1", "All results hold for any set of policies and any N >= 1.",
        "any-horizon", SHORT_HORIZON),
    sentence("vi-lemma-1-first", "Lemma 1", "‖Gq - Gq'‖ <= ‖Bq - Bq'‖ for any q, q'.", "lemma-1-first", COIN),
    sentence("vi-lemma-1", "Lemma 1", "‖Gq - Gq'‖ <= γ ‖q - q'‖ for any q, q'.",
        "lemma-1-contraction",
        shows("theory", "lemma_1_both_forms_contract_by_gamma", "no pair of tables exceeds γ, in both forms")),
    sentence("vi-theorem-2", "Theorem 2", "Q = G Q if and only if Q = Q*.",
        "theorem-1", "lemma-1-contraction", CONVERGES),
    sentence("vi-theorem-4", "Theorem 4", "‖Gq - Q*‖ <= ‖Bq - Q*‖ for any q.", "theorem-4", COIN),
    sentence("vi-always-faster", "Section 3.1",
        "So the operator always converges faster than the Bellman optimality operator.", "theorem-4", COIN),
    sentence("vi-theorem-5", "Theorem 5",
        "If q <= Q* and from every state a policy is optimal for n steps, the rate is γ^(n+1).", "theorem-5", FAST),
    sentence("vi-theorem-5-squared", "Theorem 5", "If in every state some policy is optimal, the rate is γ².",
        "theorem-5-squared", FAST),
    sentence("vi-small-subset", "Section 3.1",
        "The policies need not be optimal everywhere, only where they come within that period.", "theorem-5", FAST),
    sentence("vi-stays-below", "Proof of Theorem 5", "From q <= Q* the results stay below Q*.",
        "stays-below",
        shows("theory", "theorem_4_holds_in_both_forms_from_below", "Bq <= Gq <= Q* from q <= Q*, in both forms")),
    sentence("vi-proof-step", "Proof of Theorem 5",
        "Under the condition of the theorem, max_π (B^π)^n B q = B^(n+1) q.",
        "theorem-5-proof-step", "theorem-5-proofs-form",
        refutes("claims_theory", "counterexample_5_the_optimal_policy_need_not_be_greedy_for_q",
            "four states: 0 on the left, 0.405 on the right"),
        refutes("theory", "counterexample_2_the_form_of_the_proofs_breaks_theorem_5",
            "a fork: 0.9 instead of 0.81 in the form of the proofs")),
    # -- Section 4: method ---------------------------------------------------------------------------------------------
    sentence("method-matrix-formula", "Section 4, model-based", "With a model, V is updated by the matrix formula.",
        "matrix-formula",
        refutes("theory", "the_printed_matrix_formula_lacks_a_transition",
            "on a chain of two states it gives (0, 1.9) instead of (0.9, 1)")),
    sentence("method-precomputed", "Section 4, model-based", "The matrices stay fixed and can be computed in advance.",
        shows("experiments", "the_matrix_form_is_the_formula_of_the_paper",
            "matrices made once give what the formula gives")),
    sentence("method-complexity", "Section 4, model-based", "One iteration costs O(|A| |Π| N |S|²).",
        "complexity", "complexity-in-steps"),
    sentence("method-any-data", "Section 4, model-free",
        "The theorems hold for any policies, so that one can learn from any off-policy data without correction.",
        "table1-no-correction", "sampled-safe", LOGS, MORE_DATA),
    sentence("method-no-expectation", "Section 4, model-free",
        "In deterministic MDPs no expectation is needed: the sampled operator is a contraction to Q*.",
        "sampled-contraction",
        shows("theory", "the_sampled_operator_contracts_to_the_optimum_in_deterministic_models",
            "no pair of tables exceeds γ, Q* is left as it is"),
        shows("theory", "data_that_visit_every_action_are_enough_in_deterministic_models",
            "the same with stored data")),
    sentence("method-arbitrary-trajectories", "Section 4, model-free",
        "Greedy-Step Q-learning and DQN can use trajectories of arbitrary policies, since the operator converges.",
        "sampled-safe", LOGS),
    sentence("method-no-importance-sampling", "Section 4, first advantage", "No importance sampling is involved.",
        "table1-no-correction", NO_POLICY),
    sentence("method-no-policy", "Section 4, second advantage",
        "Neither the behaviour nor the target policy has to be known.", NO_POLICY),
    sentence("method-no-restriction", "Section 4, third advantage",
        "There is no restriction on the behaviour nor on the target policy.",
        "table1-no-correction", FIXED_POINT,
        refutes("operators", "sampled_leaves_unvisited_entries_alone",
            "what the behaviour never does is never learned: it must visit every action")),
    sentence("method-others-positive", "Section 4, third advantage",
        "Existing methods often require positive probabilities of actions.",
        shows("theory", "importance_sampling_misses_what_no_behaviour_does",
            "what no behaviour does is lost, and the limit is wrong")),
    sentence("method-others-close", "Section 4, third advantage",
        "Or that the target is close to the behaviour, as Q(λ) does.",
        shows("claims_theory", "q_lambda_diverges_where_the_behaviour_is_far_and_converges_where_it_is_near",
            "Q(λ) with λ = 1 diverges where the two differ much")),
    sentence("discussion-overestimation", "Section 4.1, overestimation",
        "With function approximation the greedy-step return may over-estimate.", "horizon-overestimation"),
    sentence("discussion-double", "Section 4.1, overestimation", "The method performed well with Double DQN.",
        "horizon-double"),
    sentence("discussion-larger-n", "Section 4.1, hyperparameter",
        "A larger N propagates information faster, but over-estimates more.",
        "horizon-faster", "horizon-overestimation"),
    sentence("discussion-addressed", "Section 4.1, hyperparameter",
        "Techniques against over-estimation address this well.", "horizon-addressed"),
    sentence("discussion-delayed", "Section 4.1, hyperparameter",
        "Where a reward comes only at the end, the method is at its best.", "fig2-outperforms"),
    sentence("discussion-recursion", "Section 4.1, computation",
        "The return at a step follows from the one after it, by a maximum of two values.", RECURSION),
    sentence("discussion-time", "Section 4.1, computation",
        "Greedy-Step DQN needs almost the same training time as DQN.", "fig3-equal-time"),
    # -- Section 5: related work, and Table 1 --------------------------------------------------------------------------
    sentence("related-lambda", "Section 5", "λ-returns mix N-step operators with weights (1-λ) λ^N, N >= 1.",
        "lambda-weights",
        refutes("theory", "the_printed_weights_of_the_lambda_operator_do_not_sum_to_one",
            "a value of 2 becomes 1 at λ = 1/2")),
    sentence("related-weighted", "Section 5",
        "Greedy-Step is a weighted return with all weight on the best number of steps.",
        shows("claims_theory", "greedy_step_is_the_weighted_return_with_all_weight_on_the_best_n",
            "equal at every step")),
    sentence("related-generalised", "Section 5", "Weighted returns generalise λ-returns.",
        shows("operators", "lambda_operator_is_the_geometric_mixture", "λ-returns are one choice of weights")),
    sentence("related-monte-carlo", "Section 5", "Monte Carlo methods are SARSA with infinitely many steps.",
        shows("returns", "returns_that_take_steps_as_they_come",
            "both are n-step returns, one of them with all steps there are")),
    sentence("related-tuned", "Section 5", "N, λ and the weights usually have to be tuned case by case.",
        "fig3-case-by-case"),
    sentence("related-adaptive", "Section 5; again in its summary",
        "Greedy-Step adapts the step to the quality of the data and of the values.", "table1-adaptive-step"),
    sentence("related-needs-correction", "Section 5",
        "Policy evaluation needs a correction for the data of other policies.", "table1-needs-correction"),
    sentence("related-variance", "Section 5", "The products of importance sampling make values vary much.",
        "importance-sampling-variance"),
    sentence("related-distance", "Section 5",
        "TB(λ), Q(λ) and Retrace(λ) are often limited by the distance between target and behaviour.",
        shows("claims_theory", "q_lambda_diverges_where_the_behaviour_is_far_and_converges_where_it_is_near",
            "Q(λ) is"),
        refutes("claims_theory", "tree_backup_and_retrace_contract_to_the_targets_value_however_far_the_behaviour_is",
            "TB(λ) and Retrace(λ) contract at any distance")),
    sentence("related-need-behaviour", "Section 5", "These three also need the behaviour's probabilities.",
        shows("claims_theory", "importance_sampling_and_retrace_must_be_given_the_behaviours_probabilities",
            "Retrace(λ) does"),
        refutes("claims_theory", "tree_backup_and_q_lambda_are_not_given_the_behaviours_probabilities",
            "TB(λ) and Q(λ) do not")),
    sentence("related-ours-safe", "Section 5", "Greedy-Step needs no correction and can safely use arbitrary data.",
        "table1-no-correction", "sampled-safe", NO_POLICY),
    sentence("related-lemma-2", "Lemma 2", "The multi-step optimality operator contracts by γ^N.",
        "lemma-2",
        shows("theory", "lemma_2_multi_step_optimality_contracts_by_gamma_to_the_n", "no pair of tables exceeds γ^N")),
    sentence("related-limit-below", "Theorem on the fixed point of the multi-step optimality operator",
        "For N >= 2 its fixed point lies below Q*.",
        "multi-step-limit-below",
        shows("theory", "the_fixed_point_of_multi_step_optimality_lies_below_the_optimum", "never above Q*")),
    sentence("related-limit-optimal", "Theorem on the fixed point of the multi-step optimality operator",
        "If from every state a policy is optimal for N steps, the fixed point is Q*.",
        "multi-step-limit-optimal",
        refutes("theory",
            "counterexample_4_a_policy_that_knows_the_way_from_each_state_is_not_enough_in_stochastic_models",
            "three states: 0.45 where Q* is 0.9")),
    sentence("related-suboptimal", "Section 5",
        "It converges faster than the Bellman operator, but to suboptimal values in general.",
        "lemma-2", "multi-step-limit-below",
        shows("theory", "the_fixed_point_of_multi_step_optimality_can_lie_strictly_below",
            "on a chain of three: 0 where Q* is 0.81")),
    sentence("related-only-all", "Section 5", "Its limit is optimal only when all behaviour policies are.",
        "multi-step-all-optimal",
        refutes("theory", "one_optimal_policy_among_others_is_enough_for_its_fixed_point_to_be_optimal",
            "one optimal policy among others is enough")),
    sentence("related-summary", "Section 5, summary",
        "Greedy-Step converges to Q* at rate γ, or γ², γ^N under conditions, needs no correction and no policy.",
        "table1-greedy-step-definition", "theorem-5", "theorem-5-squared", "table1-no-correction", NO_POLICY),
    sentence("related-none", "Section 5, summary",
        "No existing operator has all of these properties (checked: those of Table 1).",
        "fig1-n-iterations", "table1-needs-correction",
        shows("theory", "the_fixed_point_of_multi_step_optimality_can_lie_strictly_below",
            "multi-step optimality can end below Q*")),
    sentence("table-one-step", "Table 1, one-step optimality", "Q* at rate γ; no correction.",
        "table1-one-step-optimality"),
    sentence("table-multi-step", "Table 1, multi-step optimality", "Below Q* at rate γ^N; no correction.",
        "table1-multi-step-optimality", "table1-multi-step-no-correction"),
    sentence("table-evaluation", "Table 1, multi-step on/off-policy", "Q^π at rate γ^N; a correction is needed.",
        "table1-multi-step-on-policy", "table1-multi-step-off-policy", "table1-needs-correction"),
    sentence("table-greedy-step", "Table 1, Greedy-Step",
        "Q* at rate γ, or faster; no correction, no policy, adaptive steps.",
        "table1-greedy-step-definition", "table1-greedy-step-proofs", "theorem-5", "table1-no-correction",
        "table1-adaptive-step", NO_POLICY),
    # -- Sections 6 and 7: experiments, conclusion ---------------------------------------------------------------------
    sentence("toy-trace-back", "Section 6.1, toy tasks",
        "In Trace Back only the right two first actions give the highest score.",
        shows("toy", "only_up_then_right_solves_trace_back", "of 16 pairs one reaches it")),
    sentence("toy-outperforms", "Section 6.1, Figure 2 (a) and (b)",
        "On both delayed-reward tasks Greedy-Step outperforms all other methods.", "fig2-outperforms"),
    sentence("toy-twenty", "Section 6.1, Figure 2 (b)",
        "On Trace Back it needs 20 episodes, RUDDER, the best of the others, more than 1000.",
        "fig2-twenty-episodes", "fig2-rudder-thousand"),
    sentence("toy-no-growth", "Section 6.1, Figure 2", "Its episodes do not visibly increase with the delay.",
        "fig2-no-growth"),
    sentence("toy-exponential", "Section 6.1, Figure 2", "Other methods such as Q(λ) need exponentially more.",
        "fig2-q-lambda-exponential"),
    sentence("toy-because", "Section 6.1", "That is because it looks ahead to the end of the game.",
        "fig2-because-of-looking-ahead"),
    sentence("toy-propagates", "Section 6.1",
        "So the final reward quickly reaches the first actions, across a long horizon.",
        shows("tabular", "greedy_step_solves_trace_back_at_the_first_right_episode",
            "solved in the episode in which the best return is first seen")),
    sentence("deep-outperforms", "Section 6.1, Figure 3",
        "Greedy-Step DQN outperforms almost all methods in reward and sample efficiency on almost all tasks.",
        "fig3-outperforms", "fig3-sooner-than-dqn"),
    sentence("deep-pixelcopter", "Section 6.1, Figure 3", "The exception is Pixelcopter.", "fig3-not-pixelcopter"),
    sentence("deep-twice", "Section 6.1, Figure 3",
        "On Breakout, Seaquest and Space Invaders it gets almost twice the reward of the best other method.",
        "fig3-twice-breakout", "fig3-twice-seaquest", "fig3-twice-space-invaders"),
    sentence("deep-same-level", "Section 6.1, Figure 3",
        "On Pong, MountainCar and Freeway several methods converge to its level.",
        "fig3-same-level-pong", "fig3-same-level-mountaincar", "fig3-same-level-freeway"),
    sentence("deep-half-the-samples", "Section 6.1, Figure 3", "They need more than twice the samples for it.",
        "fig3-half-the-samples-pong", "fig3-half-the-samples-mountaincar", "fig3-half-the-samples-freeway"),
    sentence("offline-gap", "Section 6.1, Figure 2 (c)",
        "Offline on Grid World the gap to Q-learning becomes larger with the size.", "fig2-grid-gap"),
    sentence("networks-overestimation", "Section 6.2, overestimation",
        "The maximum over returns easily over-estimates.", "horizon-overestimation"),
    sentence("networks-important", "Section 6.2, overestimation",
        "Reducing over-estimation is important for the success of Greedy-Step DQN.",
        "fig4-overestimation", "fig4-better"),
    sentence("networks-six", "Section 6.2, Figure 4",
        "With 6 target networks it performs better and is more stable, and Q is smaller.",
        "fig4-better", "fig4-stable", "fig4-smaller-q"),
    sentence("networks-often-good", "Section 6.2, overestimation", "Six target networks often give a good performance.",
        "fig4-six"),
    sentence("steps-adaptive", "Section 6.2, adaptive step",
        "Greedy-Step DQN decides on the step by the largest return.", "table1-adaptive-step", RECURSION),
    sentence("steps-larger-at-first", "Section 6.2, Figure 5",
        "At the beginning of training larger steps are chosen, later shorter ones.", "fig5-larger-at-first"),
    sentence("steps-fast-beginning", "Section 6.2, adaptive step",
        "This propagates what the data say quickly at the beginning.", "horizon-faster"),
    sentence("steps-smaller", "Section 6.2, adaptive step",
        "Later, as values fit, the chosen steps get smaller by themselves.", "fig5-getting-smaller"),
    sentence("conclusion-solution", "Section 7",
        "The solution of the multi-step equations is the optimal value function.",
        "theorem-1", "table1-greedy-step-definition", CONVERGES),
    sentence("conclusion-faster", "Section 7",
        "The operators generally converge faster than the Bellman optimality operator.",
        "theorem-4", "good-policy-faster"),
    sentence("conclusion-advantages", "Section 7",
        "The algorithms have several advantages over existing off-policy algorithms.",
        "table1-no-correction", "importance-sampling-variance", NO_POLICY),
    sentence("conclusion-effective", "Section 7", "Standard benchmarks demonstrate that the method is effective.",
        "fig2-outperforms", "fig3-outperforms"),
)
"""All sentences, in the order of the paper."""

# fmt: on

TESTS = tuple(dict.fromkeys(one.test for each in SENTENCES for one in each.evidence if isinstance(one, CheckedBy)))
"""Node ids of all tests that are evidence; `pytest --record-evidence` runs them and records their outcomes."""
