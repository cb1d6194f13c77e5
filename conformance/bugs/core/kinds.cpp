#include "conformance/bugs/core/kinds.hpp"

#include <set>

#include "conformance/bugs/core/model.hpp"

namespace posproof::bugs {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"K-RL1", "pairs of the other layout", "", ""},
      {"K-RL2", "q and k weights not permuted for the kernel's layout",
       "an operation that permutes weight rows", ""},
      {"K-RL3", "k weights permuted with the wrong head count",
       "an operation that permutes weight rows", ""},
      {"K-RL4", "permutation skipped for a bias, a scale or a LoRA",
       "an operation that permutes weight rows", ""},
      {"K-RL5", "table spread for the other layout", "", ""},
      {"K-RL6", "turns backwards", "", ""},
      {"K-RL7", "halves of q and k crossed", "", ""},
      {"K-RL8", "values rotated too", "", ""},
      {"K-RD1", "partial rotary: head_dim in the exponent or the partner", "", ""},
      {"K-RD2", "partial factor ignored, or applied twice", "", ""},
      {"K-RD3", "proportional taken for ordinary partial rotary", "rope_type proportional", ""},
      {"K-RD4", "tail left out, or copied from a packed index", "", ""},
      {"K-RD5", "head_dim from hidden size and heads, the explicit one ignored",
       "the config reader", ""},
      {"K-RD6", "odd rotary_dim accepted", "", ""},
      {"K-RD7", "axes split in two ways between table and use", "vision rope", ""},
      {"K-RP1", "inv_freq rounded to 16 bits", "", ""},
      {"K-RP2", "positions rounded to 16 bits", "", ""},
      {"K-RP3", "position times frequency under autocast", "", ""},
      {"K-RP4", "table and products in 16 bits under wider inputs", "", ""},
      {"K-RP5", "table made in one type, cast later", "", ""},
      {"K-RP6", "table never initialised", "", ""},
      {"K-RP7", "narrow integers for lengths",
       "rope_type yarn, whose ramp takes the original length", ""},
      {"K-RP8", "rows beyond 2^16 dropped", "", ""},
      {"K-RP9", "angle by a running f32 product", "",
       "a right variation: grade P2, recipe ggml_f32_chain"},
      {"K-RI1", "left padding counted", "", ""},
      {"K-RI2", "off by one, or from 0, while decoding", "", ""},
      {"K-RI3", "retained rows taken for the position after eviction", "", ""},
      {"K-RI4", "positions ignored", "", ""},
      {"K-RI5", "table kept for the next call", "", ""},
      {"K-RI6", "rows of the batch after the first", "", ""},
      {"K-RI7", "position beyond the table clamped", "", ""},
      {"K-RI8", "cache shifted with other dimensions", "", ""},
      {"K-RI9", "rotated along the axis of heads", "", ""},
      {"K-RI10", "context-parallel slices without the sequence offset", "",
       "positions are an input of every operation; what cuts packed sequences into shards has no "
       "operation"},
      {"K-RB1", "wrong base", "", ""},
      {"K-RB2", "base read from the wrong place", "the config reader", ""},
      {"K-RB3", "base or scale of local layers on global ones", "the schedule of layers", ""},
      {"K-RS1", "scaling ignored", "", ""},
      {"K-RS2", "unknown rope_type taken for default", "", ""},
      {"K-RS3", "factor applied twice", "", ""},
      {"K-RS4", "default scaled by a constant", "", ""},
      {"K-RS5", "multiplied by the factor", "", ""},
      {"K-NT1", "stretched at every length", "rope_type dynamic", ""},
      {"K-NT2", "stretched base kept after a long input", "rope_type dynamic", ""},
      {"K-NT3", "cached keys of an older base", "rope_type dynamic", ""},
      {"K-NT4", "length from the axis of heads", "rope_type dynamic", ""},
      {"K-Y1", "correction range rounded or not", "rope_type yarn", ""},
      {"K-Y2", "factor inside the power", "rope_type yarn", ""},
      {"K-Y3", "ramp on the wrong index or reversed", "rope_type yarn", ""},
      {"K-Y4", "wrong original context", "rope_type yarn", ""},
      {"K-Y5", "factor from the wrong source", "rope_type yarn", ""},
      {"K-Y6", "explicit attention_factor ignored", "rope_type yarn", ""},
      {"K-Y7", "cos and sin scaled by the softmax mscale", "rope_type yarn", ""},
      {"K-Y8", "softmax factor from the wrong mscale", "rope.softmax_scale", ""},
      {"K-Y9", "softmax factor missing", "rope.softmax_scale", ""},
      {"K-Y10", "attention factor counted twice", "rope_type yarn", ""},
      {"K-Y11", "mscale and mscale_all_dim both 1: contested", "rope_type yarn", ""},
      {"K-Y12", "YaRN active on a model without it", "rope_type yarn", ""},
      {"K-Y13", "truncate not found in a nested config", "the config reader", ""},
      {"K-LL1", "llama3 scaling missing", "rope_type llama3", ""},
      {"K-LL2", "smoothed in the wrong variable", "rope_type llama3", ""},
      {"K-LL3", "factors not carried by a converter", "rope_type llama3", ""},
      {"K-LL4", "bands reversed", "rope_type llama3", ""},
      {"K-LR1", "one table only", "rope_type longrope", ""},
      {"K-LR2", "switched by capacity", "rope_type longrope", ""},
      {"K-LR3", "stale keys at the switch", "rope_type longrope", ""},
      {"K-LR4", "switched at the wrong boundary", "rope_type longrope", ""},
      {"K-LR5", "attention factor wrong", "rope_type longrope", ""},
      {"K-MR1", "1-D positions for vision tokens", "M-RoPE", ""},
      {"K-MR2", "chunked and interleaved sections exchanged", "M-RoPE", ""},
      {"K-MR3", "section bound ignored", "M-RoPE", ""},
      {"K-MR4", "image advances by its token count", "positions of M-RoPE", ""},
      {"K-MR5", "decode delta wrong", "positions of M-RoPE", ""},
      {"K-MR6", "fourth axis unfilled", "M-RoPE", ""},
      {"K-MR7", "interleaved sections taken for interleaved lanes", "M-RoPE", ""},
      {"K-MR8", "height and width exchanged", "vision rope", ""},
      {"K-MR9", "frequencies allotted to axes in another way", "vision rope", ""},
      {"K-MR10", "2-D rope replaced by 1-D", "vision rope", ""},
      {"K-NP1", "rotated on layers without positions", "", ""},
      {"K-NP2", "flag or interval of those layers inverted", "the schedule of layers", ""},
      {"K-NP3", "base 0 or less accepted", "", ""},
      {"K-NP4", "attention temperature missing or one off", "attention.temperature", ""},
      {"K-N1", "exponent doubled", "", ""},
      {"K-N2", "cosine with a frequency of its own", "", ""},
      {"K-N3", "base 1000", "", ""},
      {"K-N4", "integer division in the exponent", "", ""},
      {"K-N5", "all frequencies 1", "", ""},
      {"K-N6", "other order of sines and cosines (a convention)", "", ""},
      {"K-N7", "other denominator (a convention)", "", ""},
      {"K-N8", "min_timescale multiplied", "sinusoids of tensor2tensor with min_timescale", ""},
      {"K-N9", "odd width", "", ""},
      {"K-N10", "positions from padding_idx + 1", "", ""},
      {"K-N11", "table not grown with the past", "", ""},
      {"K-N12", "positions or table rounded", "", ""},
      {"K-L1", "fixed offset left out", "", ""},
      {"K-L2", "padding_idx left out", "", ""},
      {"K-L3", "beyond the table clamped or wrapped", "", ""},
      {"K-L4", "positions given ignored: padding counted", "", ""},
      {"K-L5", "resized by another rule (a convention)", "an operation that resizes tables", ""},
      {"K-S1", "queries from 0 while decoding", "", ""},
      {"K-S2", "not clipped", "", ""},
      {"K-S3", "square only", "", ""},
      {"K-S4", "other sign (a convention)", "", ""},
      {"K-S5", "shifted scores keep the wrong slice", "", ""},
      {"K-S6", "causal skew without a mask", "", ""},
      {"K-S7", "reversed table sliced from the front",
       "Transformer-XL's table, which is longer than the scores", ""},
      {"K-S8", "sign of the distance lost", "", ""},
      {"K-S9", "clipped one short", "", ""},
      {"K-S10", "value term missing", "", ""},
      {"K-T1", "no logarithmic half", "", ""},
      {"K-T2", "variants of the bucket", "", ""},
      {"K-T3", "bias in cross-attention", "",
       "whether attention is cross-attention is the model's business, not an input of any "
       "operation"},
      {"K-T4", "no bias while decoding", "", ""},
      {"K-T5", "log 0", "", ""},
      {"K-T6", "max_distance 128 always", "", ""},
      {"K-T7", "bidirectional exchanged", "", ""},
      {"K-T8", "boundaries one bucket low", "", ""},
      {"K-A1", "other rule of slopes (a convention)", "", ""},
      {"K-A2", "slopes from head 0", "", ""},
      {"K-A3", "sign", "", ""},
      {"K-A4", "bias follows the query", "", ""},
      {"K-A5", "other form (a convention)", "", ""},
      {"K-A6", "no bias while decoding", "", ""},
      {"K-A7", "shard reads the wrong slopes", "", ""},
      {"K-A8", "bias in bf16", "", ""},
      {"K-A9", "bias scaled with the scores", "", ""},
      {"K-A10", "positions under padding (a convention)", "",
       "positions are an input of every operation; what makes them from a mask has no operation"},
      {"K-A11", "slopes of 16 bits read with an offset of floats", "", ""},
      {"K-A12", "bias_max ignored", "", ""},
      {"K-X1", "base of the power not positive", "xPos", ""},
      {"K-X2", "centre moves between cached keys and queries", "xPos", ""},
      {"K-X3", "scale_base 1", "xPos", ""},
      {"K-X4", "KERPLE's parameters unconstrained", "KERPLE", ""},
      {"K-G1", "strides and aliasing ignored",
       "the kernels' header; over the protocol every tensor is packed", ""},
      {"K-G2", "order of rotation and qk-norm", "an operation for qk-norm", ""},
  };
  return all;
}

std::string kinds_markdown() {
  std::map<std::string, std::vector<std::string>> models;
  for (const BugModel& model : all_models()) models[model.kind].push_back(model.title);
  std::size_t modelled = 0, waiting = 0;
  std::string rows;
  for (const Kind& kind : kinds()) {
    std::string status;
    const auto found = models.find(kind.id);
    if (found != models.end()) {
      ++modelled;
      for (const std::string& title : found->second)
        status += (status.empty() ? "modelled: " : "; ") + title;
    } else if (*kind.waits_for) {
      ++waiting;
      status = std::string("waits for ") + kind.waits_for;
    } else {
      status = std::string("not expressible: ") + kind.not_expressible;
    }
    rows += std::string("| ") + kind.id + " | " + kind.title + " | " + status + " |\n";
  }
  return "# Kinds of mistakes\n\n"
         "The " +
         std::to_string(kinds().size()) +
         " known kinds, and what posproof has of each: " + std::to_string(modelled) +
         " are modelled as executable\nimplementations, " + std::to_string(waiting) +
         " wait for an operation, " + std::to_string(kinds().size() - modelled - waiting) +
         " are no input of any operation or no mistake. Written by `kill_matrix write`.\n"
         "[kill-matrix.md](kill-matrix.md) shows what notices each model.\n\n"
         "| kind | what | here |\n|---|---|---|\n" +
         rows;
}

}  // namespace posproof::bugs
