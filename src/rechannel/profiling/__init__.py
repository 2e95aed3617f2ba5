"""Why an application is slow: critical participation of its activities (SnailTrail, NSDI 2018)."""
