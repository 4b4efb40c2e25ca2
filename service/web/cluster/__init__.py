"""The pages of a whole cluster: overview, pipeline, and the landing page over all clusters."""
