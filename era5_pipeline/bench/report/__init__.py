"""Tables and figures of results, and what the study published to set them against."""
