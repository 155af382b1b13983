"""The usual names of columns and arrays, and what each says about its role."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from focalibrate.io.predictions import ScoreKind

Meaning: TypeAlias = Literal["logits", "probs", "scores"]
"""What a name says: the kind of the scores, or only that they are scores."""


def plain(name: str) -> str:
    """Return the words of `name` in lower case, with one underscore between them.

    Example:
        >>> plain(" Y-True "), plain("P(chêne)"), plain(".pred_cat"), plain("predictedProb")
        ('y_true', 'p_chêne', 'pred_cat', 'predicted_prob')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z]|[A-Z]+$)", "_", name.strip())
    return re.sub(r"[\W_]+", "_", words.lower()).strip("_")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABELS = _words(
    "label labels y y_true ytrue y_test y_val y_valid target targets class truth gt true actual "
    "actuals ground_truth groundtruth true_label true_labels true_class true_y label_true "
    "class_label class_true actual_label actual_class gold gold_label gold_labels label_ids "
    "label_id expected observed outcome category reference references"
)
"""Names that mean the true class."""

LABELS_SHOWN = "label, labels, y, y_true, target, class, truth, gt"

PREDICTIONS = _words(
    "y_pred ypred pred preds prediction predictions predicted predict y_hat yhat pred_label "
    "pred_labels pred_class predicted_label predicted_labels predicted_class prediction_label "
    "prediction_class class_pred label_pred argmax top1 top_1 scored_labels pred_y best_class"
)
"""Names that mean the predicted class; if they hold fractions, they are scores."""

WEIGHTS = _words("weight weights sample_weight sample_weights case_weight case_weights w")

DERIVED = _words(
    "confidence conf max_prob maxprob prob_max max_proba proba_max p_max max_p max_score "
    "score_max max_probability top_prob top1_prob entropy loss correct "
    "is_correct error uncertainty nll threshold prob_sum sum total acc acc_norm exact_match f1 "
    "bleu rouge price cost latency p_value pvalue p_val"
)
"""Names of numbers computed from the scores, such as the highest probability."""

_IDS = _words(
    "index idx id ids row rows row_id rownames row_names rowname row_name row_number row_num "
    "row_nr rownum uid uuid guid key filename filenames file_name file path filepath file_path "
    "image_path timestamp datetime date time split fold x rank sample example observation obs"
)

PROBABILITY = _words(
    "prob probs proba probas probability probabilities p y_prob y_proba y_probs y_probas p_hat "
    "phat p1 y_pred_prob y_pred_proba y_pred_probs pred_prob pred_proba pred_probs pred_probas "
    "predicted_probability predicted_prob predicted_proba predicted_probabilities "
    "prediction_probability positive_prob positive_probability predict_proba scored_probabilities "
    "softmax softmaxes posterior posteriors likelihood"
)
"""Names of probabilities: of the positive class in one column, of all in a matrix."""

LOGIT = _words(
    "logit logits margin margins log_odds logodds decision decision_function raw_margin "
    "output_margin y_logit y_logits raw_logits log_prob log_probs log_proba logprobs logprob "
    "log_softmax log_probabilities"
)
"""Names of logits, of log-probabilities (which are logits too) or of log-odds."""

SCORE = _words(
    "score scores y_score y_scores output outputs raw_score raw_scores positive pos raw "
    "raw_predictions model_output oof oof_pred oof_preds oof_prediction oof_predictions"
)
"""Names of scores that do not say of which kind."""

_CORRECT = re.compile(
    r"((is|was|answer|answered|exact|response|top1)_)*"
    r"(correct|correctly|correctness|right|hit|match|matched|grade|acc|em|passed|solved|success"
    r"|outcome|resolved|resolution|came_true|happened)"
)


def says_correct(name: str) -> bool:
    """Return whether a column of this name says if an answer was right or an event happened.

    Example:
        >>> says_correct("Is Correct"), says_correct("exact_match"), says_correct("correct_letter")
        (True, True, False)
    """
    return _CORRECT.fullmatch(plain(name)) is not None


CONFIDENCE = _words(
    "confidence conf confidence_score conf_score certainty stated_confidence "
    "verbalized_confidence verbalised_confidence p_correct prob_correct p_true score prob "
    "probability p forecast forecast_probability forecast_prob predicted_probability"
)
"""Names of the probability that an answer is right, or that an event happens."""


def says_confidence(name: str) -> bool:
    """Return whether a column of this name says how sure an answer is.

    Example:
        >>> says_confidence("Score"), says_confidence("llm_confidence"), says_confidence("logit")
        (True, True, False)
    """
    return plain(name) in CONFIDENCE or plain(name).endswith("_confidence")


_LOG_PROBABILITY = re.compile(
    r"(.*_)?log_?(probs?|probas?|p|probabilit(y|ies)|likelihoods?|softmax)(_.*)?"
)


def says_log_probability(name: str) -> bool:
    """Return whether a column of this name holds logarithms of probabilities.

    Example:
        >>> says_log_probability("mean_logprob"), says_log_probability("log_odds")
        (True, False)
    """
    return _LOG_PROBABILITY.fullmatch(plain(name)) is not None


def says_percent(name: str) -> bool:
    """Return whether a column of this name holds percentages.

    Example:
        >>> says_percent("Risk (%)"), says_percent("prob_pct"), says_percent("percentile")
        (True, True, False)
    """
    return _PERCENT.search(name.lower()) is not None


_PERCENT = re.compile(r"%|(?<![a-z])(pct|perc|percents?|percentages?)(?![a-z])")


_THINGS = _words(
    "price cost costs amount fee income salary revenue usd eur lon lat longitude latitude x y z w "
    "h x1 x2 y1 y2 xmin xmax ymin ymax left top width height area size length depth bbox box "
    "distance duration time date datetime timestamp year month day hour season age weight count "
    "counts number num n tokens latency temperature seed rating stars quantity volume speed id "
    "ids index idx key code zip phone fold split flag"
)


_CLUSTERS = _words(
    "question prompt patient subject person participant respondent user customer client student "
    "author speaker image video clip frame scene document doc article page session visit case "
    "conversation dialog dialogue household school hospital site item sample example group "
    "molecule protein gene query url"
)
_NO_CLUSTERS = _words(
    "class category label target model fold split row index date time trial run epoch seed"
)


def is_cluster(name: str) -> bool:
    """Return whether rows with the same value of a column may belong together.

    Example:
        >>> is_cluster("question"), is_cluster("patient_id"), is_cluster("model_id")
        (True, True, False)
    """
    text = plain(name)
    parts = {*text.split("_")}
    is_key = bool(re.search(r"(^id_|_(id|ids|key|uuid|guid|hash)$)", text))
    return (is_key or text in _CLUSTERS) and not parts & _NO_CLUSTERS


_SPLITS = {"valid": "val", "validation": "val", "dev": "val", "holdout": "test"}


def split_of(name: str) -> str | None:
    """Return the split of the data that a name says, or None.

    Example:
        >>> split_of("val_logits"), split_of("y_test"), split_of("logits")
        ('val', 'test', None)
    """
    found = [_SPLITS.get(part, part) for part in plain(name).split("_")]
    return next((part for part in found if part in ("train", "val", "test")), None)


OPTIONS = _words(
    "option_logits option_logprobs option_logits_per_byte option_logits_per_character"
)
"""Names of the scores of a row's own options, whose number and order mean nothing."""


RIGHT = _words("true 1 correct right c yes y hit pass passed t")
WRONG = _words("false 0 incorrect wrong i no n miss fail failed f")
"""Words for an answer that was right or wrong."""

NOT_SCORES = _words(
    "bbox box boxes xyxy xywh segmentation keypoints polygon embedding embeddings features "
    "feature_vector coordinates"
)
"""Names of lists of numbers that are no scores."""

LABEL_PARTS = _words(
    "label labels target targets truth class classes outcome result winner actual answer "
    "correct category diagnosis status response y true gold default"
)
"""Words in the names of columns that may be offered as labels."""
_EVENTS = _words(
    "event death mortality fraud churn spam survival conversion relapse readmission purchase"
)
_HAPPENED = re.compile(r"[a-z]+[^\We_]ed")

CLASS_NAMES = _words(
    "class_names classes target_names label_names categories class_name names display_names"
)
"""Names of arrays that hold one name per class."""

_PREFIXES: tuple[tuple[str, ScoreKind | None], ...] = (
    (r"(?:y_?)?logits?|margin|log_?odds|decision_function|raw_margin", "logits"),
    (r"log_?(?:probs?|proba|p)", "logits"),
    (
        r"(?:y_?)?(?:pred(?:icted)?[_ .]?)?prob(?:s|as?|ability|abilities)?|pr?|softmax"
        r"|predict_proba|scored[ _.]probabilities(?:[ _.]for[ _.]class)?",
        "probs",
    ),
    (r"(?:y_?)?scores?|oof|class|\.?pred|confidence|outputs?", None),
)
_PREFIX = [
    (
        re.compile(
            rf"(?P<word>{words})(?:(?P<mark>\s*[(\[]|[_.:\-=/|]|\s+)(?P<name>.*)|(?P<digits>\d+))",
            re.IGNORECASE | re.DOTALL,
        ),
        kind,
    )
    for words, kind in _PREFIXES
]


_OUTCOME = re.compile(
    r"(?:prob|proba|probability|p)_(?:of_)?(?P<after>.+)|(?P<before>.+)_(?:prob|proba|probability)"
)


def outcome_of(name: str) -> str | None:
    """Return the outcome that a column of probabilities is named after, or None.

    Example:
        >>> outcome_of("churn_probability"), outcome_of("prob_default"), outcome_of("churn")
        ('churn', 'default', None)
    """
    found = _OUTCOME.fullmatch(plain(name))
    return None if found is None else found["after"] or found["before"]


def says_outcome(name: str, outcome: str) -> bool:
    """Return whether a column of this name says if `outcome` happened, or is so: 1 means that.

    Example:
        >>> [says_outcome(n, "churn") for n in ("is_churn", "Churned", "label")]
        [True, True, False]
    """
    own, text = plain(name), re.escape(plain(outcome))
    happened = rf"((is|has|was|true|y|label|target)_)?{text}(e?d|_(won|wins?|true|label|target))?"
    return own not in LABELS and re.fullmatch(happened, own) is not None


@dataclass(frozen=True)
class Prefixed:
    """A column's name split into prefix and class, such as ``prob_cat``."""

    word: str
    kind: ScoreKind | None
    name: str


@dataclass(frozen=True)
class Named:
    """A column or array, and what its name says; each fact is found once.

    Example:
        >>> Named("prob_cat").prefix.name, Named("P(cat)").prefix.name, Named("p10").prefix.name
        ('cat', 'cat', '10')
        >>> Named("price").prefix is None, Named("val_logits").meaning, Named("id_7").is_id
        (True, 'logits', True)
        >>> [Named(name).is_thing for name in ("call_cost_usd", "is_open", "x", "cat")]
        [True, True, True, False]
    """

    name: str

    @cached_property
    def plain(self) -> str:
        """The name in lower case, with underscores."""
        return plain(self.name)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the plain name."""
        return frozenset(self.plain.split("_"))

    @cached_property
    def prefix(self) -> Prefixed | None:
        """The prefix that says what the column holds, if it has one, and what follows."""
        text = self.name.strip()
        for pattern, kind in _PREFIX:
            found = pattern.fullmatch(text)
            if found is None:
                continue
            name = found["digits"] if found["name"] is None else found["name"]
            mark = found["mark"] or ""
            for opening, closing in (("(", ")"), ("[", "]")):
                if opening in mark and name.endswith(closing):
                    name = name[:-1]
            name = name.strip()
            if mark != "_" and len(name) > 2 and name[0] == name[-1] == '"':
                name = name[1:-1]  # for Class "cat"; after prob_ the quotes are ours
            return Prefixed(plain(found["word"]), kind, name)
        return None

    @cached_property
    def meaning(self) -> Meaning | None:
        """What the numbers are: the whole name counts first, then its parts."""
        for whole, meaning in _WHOLE:
            if self.plain in whole:
                return meaning
        return next((meaning for parts, meaning in _PARTS if parts & self.words), None)

    @property
    def score_kind(self) -> ScoreKind | None:
        """The kind of scores that the name says, if it does."""
        return None if self.meaning == "scores" else self.meaning

    @cached_property
    def is_label(self) -> bool:
        """Whether the name usually means the true class."""
        return self.plain in LABELS

    @cached_property
    def is_outcome(self) -> bool:
        """Whether a word of the name is one for labels, or says what happened: ``readmitted``."""
        return bool((LABEL_PARTS | _EVENTS) & self.words) or any(
            map(_HAPPENED.fullmatch, self.words)
        )

    @cached_property
    def is_prediction(self) -> bool:
        """Whether the name usually means the predicted class."""
        is_call = re.match(r"prediction ?\(", self.name.strip().lower())
        return self.plain in PREDICTIONS or is_call is not None

    @cached_property
    def is_id(self) -> bool:
        """Whether the name usually means an index, an id or a file."""
        is_known = self.plain in _IDS or self.name.strip().startswith("...")
        return is_known or _ID.fullmatch(self.plain) is not None

    @cached_property
    def is_thing(self) -> bool:
        """Whether the name says that numbers measure something that is no score."""
        is_flag = self.plain.split("_")[0] in ("is", "has", "was")
        return bool(_THINGS & self.words) or is_flag or self.is_id

    @cached_property
    def is_role(self) -> bool:
        """Whether this is the usual name of some role, so that its row is a header."""
        known = (LABELS, PREDICTIONS, WEIGHTS, PROBABILITY, LOGIT, SCORE, DERIVED)
        if any(self.plain in words for words in known) or (self.name.strip() and self.is_id):
            return True
        return self.prefix is not None and self.prefix.kind is not None


_WHOLE: tuple[tuple[frozenset[str], Meaning], ...] = (
    (PROBABILITY, "probs"),
    (LOGIT, "logits"),
    (SCORE, "scores"),
)
_PARTS: tuple[tuple[frozenset[str], Meaning], ...] = (
    (_words("logit logits margin margins logodds logprobs logprob log"), "logits"),
    (_words("prob probs proba probas probability probabilities softmax posterior"), "probs"),
    (_words("score scores outputs output predictions preds pred"), "scores"),
)
_ID = re.compile(
    r"|(unnamed|level|index|x)_\d+|id_.*|.*_(id|ids|idx|index|key|uuid|path|filename)"
)
