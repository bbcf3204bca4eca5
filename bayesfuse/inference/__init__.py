"""How a label model is fitted: EM, Gibbs and NUTS, and where each of them starts."""
