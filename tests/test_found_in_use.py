"""What people found wrong or in the way when they used the product, and the test that holds each.

Letters and numbers are those of the list that they left: A are wrong numbers, B what was in the
way, C pages. A line that has no test of that name any more fails here.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HELD = {
    "A1: a watchdog that asks every 100 ms bounds a step": (
        "traces/data/test_what_if.py::test_a_watchdog_thread_does_not_bound_the_step",
        "traces/infer/test_waits.py::test_a_thread_that_nothing_waits_for_bounds_nothing",
    ),
    "A2: a moved op keeps the time of the place it left": (
        "scenarios/studies/test_asked_by_name.py::"
        "test_ops_that_are_moved_to_a_quicker_gpu_take_what_it_takes",
        "sim/run/test_relocation.py::test_moved_ops_take_the_time_of_their_new_gpu",
        "sim/run/test_relocation.py::test_tables_show_where_a_moved_op_ran_last",
    ),
    "A3: utilization of a GPU is divided by stream slots": (
        "sim/analysis/test_utilization.py::test_a_gpu_works_while_an_op_runs_on_any_of_its_streams",
        "sim/analysis/test_utilization.py::test_the_heat_map_shows_a_gpu_of_many_streams",
    ),
    "A4: a host at 0 % beside 42 %, a NIC at 0 % beside communication": (
        "sim/analysis/test_utilization.py::test_host_utilization_is_busy_cores_over_all_cores",
        "scenarios/hil/test_profiled_steps.py::"
        "test_marks_and_exposed_communication_are_those_of_the_profilers_tables",
    ),
    "A5: steps of two optimizers, and the correction for tracing": (
        "traces/infer/test_waits.py::test_steps_of_two_optimizers_are_one_iteration",
        "traces/infer/test_step_times.py::test_steps_that_alternate_are_compared_by_whole_turns",
    ),
    "A6: 4.04 times the work of four ranks": (
        "reports/run/test_answer.py::test_the_work_of_a_larger_job_is_exact_where_periods_alternate",
    ),
    "A7: an interval without a distribution": (
        "scenarios/studies/test_no_distribution.py::test_ten_equal_replicas_are_no_interval",
        "scenarios/studies/test_no_distribution.py::test_the_words_stay_that_jitter_is_left_out",
    ),
    "A8: an interval that begins at half the fastest step": (
        "scenarios/studies/test_no_distribution.py::"
        "test_an_interval_that_begins_at_half_the_fastest_step_is_not_believed",
    ),
    "A9: one page, sixteen ranks, two answers": (
        "reports/run/test_first_screen.py::test_the_boxes_add_up_to_the_headline",
    ),
    "A10: bars drawn as one take the last colour": (
        "reports/page/test_figures.py::test_a_pixel_has_the_colour_of_the_kind_with_most_time",
        "reports/run/test_timeline_source.py::test_merged_bars_keep_all_time_and_all_ops",
    ),
    "A11: the median step of eight ranks is rank 0's": (
        "traces/infer/test_trace_info.py::test_the_median_of_several_ranks_says_whose_it_is",
    ),
    "A12: the rank that others wait for is not named": (
        "sim/analysis/test_arrivals.py::test_the_answer_names_the_straggler",
        "traces/data/test_raw_first_screen.py::"
        "test_whoever_arrives_last_at_a_collective_does_so_in_the_raw_files",
    ),
    "A13: what is emitted is shown as a share": (
        "scenarios/config/test_refused_at_once.py::"
        "test_what_is_emitted_without_a_unit_is_a_number_and_no_share",
        "scenarios/library/test_processes.py::test_what_a_policy_emits_has_the_unit_that_it_says",
    ),
    "A14: every op is drawn, but for half of them": (
        "reports/run/test_timeline_source.py::test_a_hundred_thousand_bars_leave_room_in_two_megabytes",
        "reports/view/test_pyramid.py::test_every_level_counts_every_op_once",
    ),
    "A15: a plan forgets the runs that explain": (
        "scenarios/cli/test_run.py::test_plan_tells_the_simulations_that_a_run_takes",
        "scenarios/cli/test_run.py::test_a_quick_run_leaves_out_the_runs_that_explain",
    ),
    "A16: GPU ops are left out without a count": (
        "traces/data/test_what_if.py::test_every_gpu_op_is_in_the_graph_or_counted",
        "traces/infer/test_waits.py::test_work_under_way_when_recording_began_is_kept_and_counted",
    ),
    "A17: the last of few steps holds the drain": (
        "scenarios/hil/test_recorded_checks.py::test_no_iteration_holds_the_fill_or_the_drain",
    ),
    "A18: one trace, two gap shares": (
        "scenarios/cli/test_trace.py::test_the_gap_share_of_a_run_is_that_of_trace_info",
    ),
    "A19: a replay calls itself a blind prediction": (
        "scenarios/hil/test_replay.py::test_what_is_only_played_again_is_a_replay",
        "scenarios/hil/test_replay.py::test_what_is_changed_is_none",
    ),
    "A20: metrics that pass validate and are never computed": (
        "scenarios/config/test_expect.py::test_what_is_no_condition_is_refused_with_the_cure",
    ),
    "A21: all-to-all is judged by nobody, a step over the network costs nothing": (
        "models/test_accuracy.py::test_all_to_all_of_eight_by_two_and_four",
        "models/test_accuracy.py::test_all_reduces_across_nodes_of_four",
        "models/network/test_collectives.py::test_a_step_between_machines_has_a_cost_of_its_own",
    ),
    "A22: 74 % of starts in a 90 % range are not called unresolved": (
        "calibration/test_two_from_one.py::"
        "test_coverage_is_judged_by_the_rule_for_intervals_and_called_unresolved",
    ),
    "B1: no model from its description": (
        "scenarios/config/test_refused_at_once.py::"
        "test_a_model_by_its_description_is_named_by_the_workload_that_runs_one",
    ),
    "B2: a group that cannot be resized is planned": (
        "scenarios/config/test_refused_at_once.py::"
        "test_a_group_that_cannot_be_resized_is_refused_with_its_place_and_why",
    ),
    "B3: a workload of one's own with tokens ends in a traceback": (
        "scenarios/library/test_processes.py::"
        "test_tokens_of_a_plug_in_workload_are_paid_for_like_those_of_a_trace",
    ),
    "B4: trace info promises rooflines that a run lacks": (
        "scenarios/workloads/test_trace_answers.py::test_a_run_answers_as_trace_info_says",
    ),
    "B5: one process cannot be scaled, says trace info": (
        "traces/infer/test_trace_info.py::test_one_process_can_be_scaled_by_its_gradients",
    ),
    "B6: oversubscription without a spine": (
        "scenarios/library/test_fabrics.py::"
        "test_the_page_counts_prices_and_draws_the_fabric_and_says_where_there_is_no_spine",
    ),
    "B7: without replicas the answer is too quick": (
        "scenarios/studies/test_no_distribution.py::test_a_run_without_replicas_says_that_it_is_too_quick",
        "scenarios/studies/test_no_distribution.py::test_a_plan_says_where_a_run_will_be_too_quick",
    ),
    "B8: eight files need a cluster": (
        "scenarios/cli/test_trace.py::"
        "test_recorded_files_say_where_their_time_goes_and_which_rank_it_is",
    ),
    "B9: which rank is the straggler": (
        "sim/analysis/test_arrivals.py::"
        "test_each_collective_names_its_last_arriver_and_the_waiting_of_every_rank",
        "sim/analysis/test_arrivals.py::test_a_rank_that_starts_late_is_reported",
    ),
    "B10: topologies that are offered and refused": (
        "scenarios/library/test_fabrics.py::test_every_topology_that_explain_offers_joins_the_machines",
    ),
    "B11: sentences that end half way": (
        "scenarios/config/test_refused_at_once.py::test_an_explanation_is_a_whole_sentence",
        "scenarios/config/test_refused_at_once.py::"
        "test_a_collective_without_its_kind_is_told_how_to_write_it",
    ),
    "B12: an algorithm of one's own": (
        "scenarios/library/test_example_plugins.py::test_a_scenario_writes_collectives_out_as_sends",
    ),
    "B13: prints of a process among the answer": (
        "scenarios/library/test_processes.py::"
        "test_what_a_process_prints_is_apart_from_the_answer_and_kept_once",
        "scenarios/library/test_processes.py::test_how_often_a_process_runs_is_what_plan_and_run_say",
    ),
    "B14: advice to install what cannot be installed": (
        "scenarios/library/test_surface.py::test_doctor_names_every_extra_that_is_absent_with_its_command",
    ),
    "B15: a table of ops in picoseconds": (
        "reports/page/test_exports.py::test_reading_the_table_gives_the_ops_of_the_result",
    ),
    "B16: infinite changes and defaults that differ": (
        "scenarios/config/test_refused_at_once.py::test_a_change_from_nothing_is_no_infinite_share",
        "reports/run/test_first_screen.py::test_a_comparison_says_what_differs_and_why",
    ),
    "B17: two cheapest, two units of money": (
        "reports/sweep/test_cost_ladder.py::"
        "test_one_thing_alone_is_the_lowest_price_and_no_two_are_the_cheapest",
        "reports/sweep/test_cost_ladder.py::test_money_has_one_unit_in_tables_and_figures",
        "reports/sweep/test_cost_ladder.py::test_settings_that_vary_together_are_each_named",
    ),
    "B18: every template is named first": (
        "scenarios/library/test_surface.py::test_every_template_has_a_name_of_its_own",
        "scenarios/library/test_surface.py::test_the_name_of_a_scenario_is_its_newest_run",
    ),
    "B19: no setting names an op": (
        "scenarios/library/test_ops.py::test_a_rule_of_the_file_changes_the_run",
    ),
    "B20: untraced steps beside a trace are not used": (
        "scenarios/hil/test_untraced_steps.py::test_a_step_takes_what_it_took_untraced",
        "scenarios/hil/test_untraced_steps.py::test_trace_info_and_plan_say_it",
    ),
    "B21: refused runs leave folders, variants know the base only": (
        "scenarios/library/test_surface.py::test_what_validate_refuses_leaves_no_folder_of_runs",
        "scenarios/cli/test_compare.py::test_variants_are_compared_with_another_than_the_base",
        "scenarios/library/test_processes.py::test_a_spare_that_is_not_there_is_named",
        "hil/agent/test_address.py::test_another_machine_is_reached_through_ssh_with_the_bundled_file",
    ),
    "B, names of parts that explain does not know": (
        "scenarios/studies/test_explain_parts.py::test_every_name_that_a_run_prints_is_explained",
        "scenarios/studies/test_explain_parts.py::test_every_form_of_name_that_a_fabric_makes_is_known",
    ),
    "B, a NIC behind a slower port changes nothing": (
        "scenarios/config/test_doubts.py::test_a_nic_quicker_than_what_it_is_plugged_into_is_doubted",
        "scenarios/config/test_doubts.py::test_a_value_of_a_sweep_is_doubted_at_its_place",
    ),
    "B, sentences read twice": (
        "scenarios/cli/test_compare.py::test_a_folder_of_runs_is_no_run_but_names_them",
        "reports/run/test_glossary.py::test_every_word_of_an_answer_is_in_the_glossary",
    ),
    "C1: narrow plots, slow tooltips, no linking": (
        "reports/page/test_interactive_figures.py::test_nothing_overflows_the_page",
        "reports/page/test_interactive_figures.py::test_marks_of_static_figures_are_read_by_keyboard",
        "reports/page/test_interactive_figures.py::test_all_interactive_components_start",
    ),
    "C2: blame by names that differ": (
        "reports/sweep/test_scaling.py::test_blame_is_by_kind_and_adds_up_to_the_headline",
    ),
    "C3: use over time of the base only, without NICs and links": (
        "reports/page/test_table_rows.py::test_use_over_time_has_every_variant_and_sort_of_part",
        "reports/page/test_interactive_figures.py::test_a_heat_map_has_a_time_axis_and_a_legend_of_shades",
    ),
    "C4: a timeline of the base, a waiting rank is blank": (
        "reports/run/test_timeline_source.py::test_every_variant_has_rows_and_lanes_of_its_own",
        "reports/run/test_timeline_source.py::"
        "test_waiting_is_a_bar_of_its_own_from_the_arrival_to_the_start",
        "reports/view/test_view_server.py::"
        "test_a_collective_is_drawn_on_every_rank_with_its_wait_before_it",
        "reports/view/test_view_browser.py::test_ranks_of_a_collective_are_reached_by_keyboard",
    ),
    "C5: sentences stop at three variants, better is by time": (
        "reports/run/test_first_screen.py::test_sentences_cover_all_variants_the_best_first",
        "reports/run/test_answer.py::test_if_higher_is_better_the_verdicts_are_reversed",
    ),
    "C6: idle is the brightest in the dark, a phone clips": (
        "reports/page/test_palette.py::test_idle_and_gap_are_nearest_to_the_paper",
        "reports/page/test_phone.py::test_certainty_is_on_the_first_screen_of_a_phone",
        "reports/page/test_interactive_figures.py::test_nothing_overflows_the_page",
    ),
    "C7: a terminal without colours, bars and progress": (
        "scenarios/cli/test_terminal.py::test_the_answer_in_a_terminal",
        "scenarios/cli/test_terminal.py::"
        "test_no_line_is_wider_than_the_terminal_and_no_number_is_cut",
        "scenarios/cli/test_run.py::test_a_run_in_a_terminal_shows_how_much_is_done_and_left",
    ),
    "C8: no MFU, no roofline plot of the ops": (
        "reports/run/test_pipeline.py::"
        "test_the_roofline_has_a_mark_for_each_op_under_the_roofs_of_its_gpu",
        "scenarios/workloads/test_training.py::"
        "test_it_says_how_long_how_many_tokens_and_how_well_the_gpus_are_used",
    ),
    "C8: no table and heat map of ranks": (
        "traces/data/test_raw_first_screen.py::"
        "test_whoever_arrives_last_at_a_collective_does_so_in_the_raw_files",
        "sim/analysis/test_arrivals.py::"
        "test_each_collective_names_its_last_arriver_and_the_waiting_of_every_rank",
    ),
    "C8: no heat map of links over leaves and spines, no bill of material": (
        "scenarios/library/test_fabrics.py::"
        "test_the_page_counts_prices_and_draws_the_fabric_and_says_where_there_is_no_spine",
        "scenarios/library/test_fabrics.py::test_switches_and_cables_are_priced",
    ),
    "C8: no comparison by kind of part": (
        "reports/sweep/test_scaling.py::test_blame_is_by_kind_and_adds_up_to_the_headline",
    ),
    "C8: no scaling curve": (
        "reports/sweep/test_scaling.py::test_a_curve_is_of_points_that_differ_in_one_number_alone",
    ),
    "D1: replayed steps and exposed communication, by its own truth": (
        "scenarios/hil/test_recorded_checks.py::"
        "test_d1_iterations_and_exposed_communication_are_the_measured_ones",
        "scenarios/hil/test_profiled_steps.py::"
        "test_marks_and_exposed_communication_are_those_of_the_profilers_tables",
    ),
    "D2: ends, waits and last arrivers of eight ranks": (
        "scenarios/hil/test_recorded_checks.py::"
        "test_d2_eight_ranks_end_together_when_they_did_and_wait_for_whom_they_did",
    ),
    "D10: ops of a GPU that nobody measured": (
        "calibration/test_measured_op_checks.py::"
        "test_d10_errors_from_a100_to_h100_against_their_targets",
        "calibration/test_measured_op_checks.py::"
        "test_d10_errors_from_h100_to_h200_meet_targets_except_fp8",
    ),
    "D13: intervals hold what a source says that nobody fitted": (
        "calibration/test_measured_op_checks.py::"
        "test_d13_gemms_of_an_unused_source_are_inside_their_intervals",
        "calibration/test_measured_op_checks.py::"
        "test_d13_few_embeddings_of_an_unused_source_are_inside_their_intervals",
    ),
    "built 1: chains": (
        "scenarios/workloads/test_trace_answers.py::test_a_run_answers_as_trace_info_says",
        "scenarios/workloads/test_trace_answers.py::test_every_trace_runs_with_a_chain",
        "scenarios/workloads/test_trace_answers.py::"
        "test_what_nobody_binds_is_a_chain_on_another_gpu_and_said",
        "models/compute/test_cross_gpu_scaling.py::test_an_op_is_scaled_with_the_most_accurate_method",
    ),
    "built 2: what ops are": (
        "traces/infer/test_op_work.py::"
        "test_kernels_that_multiply_share_the_work_and_the_others_move_one_tensor",
        "traces/infer/test_op_work.py::test_winograd_in_several_kernels_needs_a_quarter_of_the_products",
        "models/compute/test_op_shape.py::test_each_op_has_its_family_and_axes",
        "models/compute/test_op_database.py::"
        "test_attention_lies_between_lengths_but_not_between_widths_of_heads",
        "models/test_catalog.py::test_the_catalog_has_the_parts_that_scenarios_use",
    ),
    "built 3: what waits for what": (
        "traces/infer/test_waits.py::test_a_thread_waits_in_a_queue_for_the_one_that_fills_it",
        "traces/infer/test_waits.py::test_a_call_that_ends_with_nothing_is_a_wait_of_unknown_cause",
        "traces/infer/test_waits.py::test_a_poll_waits_for_what_ends_with_it",
        "traces/infer/test_waits.py::test_a_pageable_copy_waits_for_its_stream_and_is_then_staged",
        "traces/infer/test_waits.py::test_kernels_of_communication_libraries_are_known_by_name",
        "traces/data/test_what_if.py::test_a_quicker_gpu_leaves_the_longest_path_of_the_raw_file",
        "traces/data/test_what_if.py::"
        "test_kernels_that_a_scenario_halves_leave_the_longest_path_of_the_raw_file",
        "scenarios/studies/test_asked_by_name.py::"
        "test_a_kernel_that_a_file_calls_communication_is_exposed_in_the_report",
    ),
    "built 4: settings that name ops": (
        "scenarios/library/test_ops.py::test_variants_add_rules_to_those_of_the_file",
        "scenarios/library/test_ops.py::test_a_sweep_varies_a_rule",
        "scenarios/library/test_ops.py::"
        "test_a_rule_that_fits_nothing_or_cannot_be_is_an_error_with_its_place",
        "sim/facts/test_op_rules.py::test_a_rule_changes_the_ops_that_it_names",
    ),
    "built 5: moving is asked": (
        "sim/run/test_relocation.py::test_a_moved_send_uses_the_route_of_the_replacement_gpu",
        "sim/run/test_relocation.py::test_a_farther_or_slower_spare_costs_its_own_time",
    ),
    "built 6: intervals that hold": (
        "scenarios/studies/test_doubted_answers.py::"
        "test_intervals_hold_the_truth_of_most_machines_drawn_from_the_doubts",
        "scenarios/studies/test_doubted_answers.py::test_what_two_variants_share_cancels_in_their_change",
        "calibration/test_value_doubts.py::"
        "test_the_constants_are_those_that_the_program_learns_from_the_catalog",
        "scenarios/studies/test_unmeasured.py::test_a_datasheet_rate_is_not_what_is_reached",
    ),
}


@cache
def functions_of(file):
    """Names of the tests in a file."""
    return {
        one.name for one in ast.parse(file.read_text()).body if isinstance(one, ast.FunctionDef)
    }


@pytest.mark.parametrize("found", HELD)
def test_every_fault_found_in_use_has_a_test(found):
    for name in HELD[found]:
        file, _, function = name.partition("::")
        assert function in functions_of(TESTS / file), name


def test_every_line_of_the_fault_list_is_in_this_file():
    numbers = {found.partition(":")[0] for found in HELD}
    assert numbers >= {f"A{n}" for n in range(1, 23)}
    assert numbers >= {f"B{n}" for n in range(1, 22)}
    assert numbers >= {f"C{n}" for n in range(1, 9)}
    assert numbers >= {"D1", "D2", "D10", "D13", *(f"built {n}" for n in range(1, 7))}
