"""What is not the broker: programs and pages made from its code."""
