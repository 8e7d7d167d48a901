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
    "A9: one page, sixteen ranks, two answers": (
        "reports/test_first_screen.py::test_the_boxes_add_up_to_the_headline",
    ),
    "A10: bars drawn as one take the last colour": (
        "reports/test_figures.py::test_the_colour_of_a_pixel_is_that_of_what_runs_longest_in_it",
        "reports/test_timeline_source.py::test_merged_bars_keep_all_time_and_all_ops",
    ),
    "A11: the median step of eight ranks is rank 0's": (
        "traces/test_info.py::test_the_median_of_several_ranks_says_whose_it_is",
    ),
    "A12: the rank that others wait for is not named": (
        "sim/test_arrivals.py::test_the_answer_names_the_rank_that_is_the_cause",
        "traces/test_raw_first_screen.py::"
        "test_whoever_arrives_last_at_a_collective_does_so_in_the_raw_files",
    ),
    "A13: what is emitted is shown as a share": (
        "scenarios/test_refused_at_once.py::"
        "test_what_is_emitted_without_a_unit_is_a_number_and_no_share",
        "scenarios/test_processes.py::test_what_a_policy_emits_has_the_unit_that_it_says",
    ),
    "A14: every op is drawn, but for half of them": (
        "reports/test_timeline_source.py::test_a_hundred_thousand_bars_leave_room_in_two_megabytes",
        "reports/view/test_pyramid.py::test_every_level_counts_every_op_once",
    ),
    "A15: a plan forgets the runs that explain": (
        "scenarios/cli/test_run.py::test_plan_tells_the_simulations_that_a_run_takes",
        "scenarios/cli/test_run.py::test_a_quick_run_leaves_out_the_runs_that_explain",
    ),
    "A18: one trace, two gap shares": (
        "scenarios/cli/test_trace.py::test_the_gap_share_of_a_run_is_that_of_trace_info",
    ),
    "B1: no model from its description": (
        "scenarios/test_refused_at_once.py::"
        "test_a_model_by_its_description_is_named_by_the_workload_that_runs_one",
    ),
    "B2: a group that cannot be resized is planned": (
        "scenarios/test_refused_at_once.py::"
        "test_a_group_that_cannot_be_resized_is_refused_with_its_place_and_why",
    ),
    "B3: a workload of one's own with tokens ends in a traceback": (
        "scenarios/test_processes.py::"
        "test_tokens_of_a_plug_in_workload_are_paid_for_like_those_of_a_trace",
    ),
    "B4: trace info promises rooflines that a run lacks": (
        "scenarios/test_trace_answers.py::test_a_run_answers_as_trace_info_says",
    ),
    "B5: one process cannot be scaled, says trace info": (
        "traces/test_info.py::test_one_process_can_be_scaled_by_its_gradients",
    ),
    "B6: oversubscription without a spine": (
        "scenarios/test_fabrics.py::"
        "test_the_page_counts_prices_and_draws_the_fabric_and_says_where_there_is_no_spine",
    ),
    "B7: without replicas the answer is too quick": (
        "scenarios/test_no_distribution.py::test_a_run_without_replicas_says_that_it_is_too_quick",
    ),
    "B8: eight files need a cluster": (
        "scenarios/cli/test_trace.py::"
        "test_recorded_files_say_where_their_time_goes_and_which_rank_it_is",
    ),
    "B9: which rank is the straggler": (
        "sim/test_arrivals.py::"
        "test_each_collective_names_its_last_arriver_and_the_waiting_of_every_rank",
        "sim/test_arrivals.py::test_a_rank_that_begins_late_is_said_to",
    ),
    "B10: topologies that are offered and refused": (
        "scenarios/test_fabrics.py::test_every_topology_that_explain_offers_joins_the_machines",
    ),
    "B11: sentences that end half way": (
        "scenarios/test_refused_at_once.py::test_an_explanation_is_a_whole_sentence",
        "scenarios/test_refused_at_once.py::"
        "test_a_collective_without_its_kind_is_told_how_to_write_it",
    ),
    "B12: an algorithm of one's own": (
        "scenarios/test_example_plugins.py::test_a_scenario_writes_collectives_out_as_sends",
    ),
    "B13: prints of a process among the answer": (
        "scenarios/test_processes.py::"
        "test_what_a_process_prints_is_apart_from_the_answer_and_kept_once",
        "scenarios/test_processes.py::test_how_often_a_process_runs_is_what_plan_and_run_say",
    ),
    "B14: advice to install what cannot be installed": (
        "scenarios/test_surface.py::test_doctor_names_every_extra_that_is_absent_with_its_command",
    ),
    "B15: a table of ops in picoseconds": (
        "reports/test_files.py::test_the_table_is_read_as_the_result_tells_it",
    ),
    "B16: infinite changes and defaults that differ": (
        "scenarios/test_refused_at_once.py::test_a_change_from_nothing_is_no_infinite_share",
        "reports/test_first_screen.py::test_a_comparison_says_what_differs_and_why",
    ),
    "B17: two cheapest, two units of money": (
        "reports/test_capacity.py::"
        "test_one_thing_alone_is_the_lowest_price_and_no_two_are_the_cheapest",
        "reports/test_capacity.py::test_money_has_one_unit_in_tables_and_figures",
        "reports/test_capacity.py::test_settings_that_vary_together_are_each_named",
    ),
    "B18: every template is named first": (
        "scenarios/test_surface.py::test_every_template_has_a_name_of_its_own",
        "scenarios/test_surface.py::test_the_name_of_a_scenario_is_its_newest_run",
    ),
    "B19: no setting names an op": (
        "scenarios/test_ops.py::test_a_rule_of_the_file_changes_the_run",
    ),
    "B20: untraced steps beside a trace are not used": (
        "scenarios/test_untraced_steps.py::test_a_step_takes_what_it_took_untraced",
        "scenarios/test_untraced_steps.py::test_trace_info_and_plan_say_it",
    ),
    "B21: refused runs leave folders, variants know the base only": (
        "scenarios/test_surface.py::test_what_validate_refuses_leaves_no_folder_of_runs",
        "scenarios/cli/test_compare.py::test_variants_are_compared_with_another_than_the_base",
    ),
    "B, sentences read twice": (
        "scenarios/cli/test_compare.py::test_a_folder_of_runs_is_no_run_but_names_them",
        "reports/test_words.py::test_what_an_answer_is_told_with_is_defined",
    ),
    "C1: narrow plots, slow tooltips, no linking": (
        "reports/test_live.py::test_nothing_sticks_out_of_the_page",
        "reports/test_live.py::test_marks_of_still_figures_are_told_from_the_keyboard",
        "reports/test_live.py::test_all_components_are_alive",
    ),
    "C2: blame by names that differ": (
        "reports/test_scaling.py::test_blame_is_by_kind_and_adds_up_to_the_headline",
    ),
    "C3: use over time of the base only, without NICs and links": (
        "reports/test_rows.py::test_use_over_time_has_every_variant_and_sort_of_part",
        "reports/test_live.py::test_a_heat_map_has_an_axis_of_time_and_says_what_its_shades_are",
    ),
    "C4: a timeline of the base, a waiting rank is blank": (
        "reports/test_timeline_source.py::test_every_variant_has_rows_and_lanes_of_its_own",
        "reports/test_timeline_source.py::"
        "test_waiting_is_a_bar_of_its_own_from_the_arrival_to_the_start",
        "reports/view/test_view_server.py::"
        "test_a_collective_is_drawn_on_every_rank_with_its_wait_before_it",
        "reports/view/test_view_browser.py::test_ranks_of_a_collective_are_gone_to_by_keyboard",
    ),
    "C5: sentences stop at three variants, better is by time": (
        "reports/test_first_screen.py::test_sentences_cover_all_variants_the_best_first",
        "reports/test_answer.py::"
        "test_where_more_is_better_less_is_worse_and_the_best_part_gains_most",
    ),
    "C6: idle is the brightest in the dark, a phone clips": (
        "reports/test_palette.py::test_idle_and_gap_are_nearest_to_the_paper",
        "reports/test_phone.py::test_how_sure_is_on_the_first_screen_of_a_phone",
        "reports/test_live.py::test_nothing_sticks_out_of_the_page",
    ),
    "C7: a terminal without colours, bars and progress": (
        "scenarios/cli/test_terminal.py::test_the_answer_in_a_terminal",
        "scenarios/cli/test_terminal.py::"
        "test_no_line_is_wider_than_the_terminal_and_no_number_is_cut",
        "scenarios/cli/test_run.py::test_a_run_in_a_terminal_shows_how_much_is_done_and_left",
    ),
    "C8: no MFU, no roofline plot of the ops": (
        "reports/test_pipeline.py::"
        "test_the_roofline_has_a_mark_for_each_op_under_the_roofs_of_its_gpu",
        "scenarios/test_training.py::"
        "test_it_says_how_long_how_many_tokens_and_how_well_the_gpus_are_used",
    ),
    "C8: no table and heat map of ranks": (
        "traces/test_raw_first_screen.py::"
        "test_whoever_arrives_last_at_a_collective_does_so_in_the_raw_files",
        "sim/test_arrivals.py::"
        "test_each_collective_names_its_last_arriver_and_the_waiting_of_every_rank",
    ),
    "C8: no heat map of links over leaves and spines, no bill of material": (
        "scenarios/test_fabrics.py::"
        "test_the_page_counts_prices_and_draws_the_fabric_and_says_where_there_is_no_spine",
        "scenarios/test_fabrics.py::test_switches_and_cables_are_priced",
    ),
    "C8: no scaling curve": (
        "reports/test_scaling.py::test_a_curve_is_of_points_that_differ_in_one_number_alone",
    ),
}


@cache
def functions_of(file):
    """Names of the tests in a file."""
    return {
        one.name for one in ast.parse(file.read_text()).body if isinstance(one, ast.FunctionDef)
    }


@pytest.mark.parametrize("found", HELD)
def test_what_was_found_in_use_is_held_by_a_test(found):
    for name in HELD[found]:
        file, _, function = name.partition("::")
        assert function in functions_of(TESTS / file), name


def test_every_line_of_the_list_is_here():
    numbers = {found.partition(":")[0] for found in HELD}
    assert numbers >= {f"A{n}" for n in (9, 10, 11, 12, 13, 14, 15, 18)}
    assert numbers >= {f"B{n}" for n in range(1, 22)}
    assert numbers >= {f"C{n}" for n in range(1, 9)}
