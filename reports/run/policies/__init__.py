"""Sections about what policies use and leave: stores, queues, pools of items, emitted values."""
