"""Questions that only another run can answer: faster components, and errors of models."""
