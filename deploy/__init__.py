"""What runs txnscope elsewhere: container images, Compose, and the demo. The product imports none of it."""
