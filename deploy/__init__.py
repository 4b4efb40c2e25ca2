"""Ways to run txnscope (container images, Compose, the Helm chart, the demo), and the tools that build its releases and
its site. The product imports nothing from this package."""
