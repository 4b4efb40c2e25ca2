"""The pages of a whole cluster (overview, applications, pipeline, audit), and the pages over all clusters (landing
page, notifications)."""
