"""Running a scenario: plan, execution, results and run folder."""
