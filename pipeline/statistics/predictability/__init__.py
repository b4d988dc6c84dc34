"""What labels and predictions give away about a group: leakage (Wang et al. 2019) and DPA (Tokas et al. 2025)."""
