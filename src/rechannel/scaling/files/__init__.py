"""What files say about scaling: DS2's own, of Flink, Heron and Timely."""
