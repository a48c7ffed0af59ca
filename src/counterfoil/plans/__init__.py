"""Plans of agent tasks: read, judged ready, run through gates, merged."""
