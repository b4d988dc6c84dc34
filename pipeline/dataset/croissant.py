"""``croissant.json``: the dataset described for machines, so that tools load its records from the folder.

Source: the Croissant format specification 1.0 and its responsible-AI vocabulary (MLCommons).
"""

import json
from typing import Any

from pipeline.dataset.facts import DatasetFacts
from pipeline.dataset.layout import MASKS
from pipeline.dataset.metadata import NAME

CONFORMS_TO = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0")
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
NUMBERS = {
    "step": "sc:Integer",
    "value": "sc:Float",
    "perceived": "sc:Float",
    "mask_share": "sc:Float",
    "seam": "sc:Float",
}


def croissant(facts: DatasetFacts) -> str:
    """The whole file."""
    return json.dumps(_dataset(facts), indent=2, ensure_ascii=False) + "\n"


def _dataset(facts: DatasetFacts) -> dict[str, Any]:
    options = facts.options
    described = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": facts.name,
        "description": facts.description,
        "license": options.licence,
        "creator": {"@type": "Organization", "name": options.creator},
        "datePublished": facts.published,
        "version": "1.0.0",
        "citeAs": f"{facts.name}, {facts.published}. Counterfactual face images made with {facts.program}.",
        "keywords": ["counterfactual", "fairness", "audit", "faces", "synthetic"],
        "isLiveDataset": False,
    }
    if options.url is not None:
        described["url"] = options.url
    return described | _responsible(facts) | {"distribution": _distribution(facts), "recordSet": _record_sets(facts)}


def _responsible(facts: DatasetFacts) -> dict[str, Any]:
    attributes = " and ".join(facts.sweep.attributes)
    return {
        "rai:dataCollection": f"Source of the photos: {facts.options.source}",
        "rai:dataManipulationProtocol": (
            f"The perceived {attributes} of each face was changed by a Fader network "
            f"(weights sha256 {facts.weights['fader']}) and put back inside a mask of the face; nothing else was."
        ),
        "rai:dataAnnotationProtocol": [
            "The column value is the network's dial; perceived is another network's probability of the attribute's "
            "high end in the image. No person was asked."
        ],
        "rai:personalSensitiveInformation": [
            "Faces of people; perceived gender and race as a network has them, which say nothing about a person. "
            "No names; photos are identified by sha256."
        ],
        "rai:dataBiases": [
            "The photos show the people of their source and no others. The networks learnt from public research data "
            "with coarse words for gender and race."
        ],
        "rai:dataLimitations": [
            "Images are synthetic. What else of a face moves with the attribute is told by the checks in README.md."
        ],
        "rai:dataUseCases": ["Audits of image classifiers with counterfactuals", "Counterfactual data augmentation"],
        "rai:dataSocialImpact": "Shows where classifiers treat people differently; must not be used to sort people.",
        "rai:dataReleaseMaintenancePlan": (
            f"Photos are withdrawn on request and listed in opt_out.txt. Requests: {facts.options.contact}"
        ),
    }  # fmt: skip


def _distribution(facts: DatasetFacts) -> list[dict[str, Any]]:
    files = [
        {
            "@type": "cr:FileObject",
            "@id": f"{name}-metadata",
            "name": f"{name}/{NAME}",
            "description": f"One row an image of the split {name}.",
            "contentUrl": f"{name}/{NAME}",
            "encodingFormat": "text/csv",
            "sha256": split.metadata_sha256,
        }
        for name, split in facts.splits.items()
    ]
    encoding = "image/png" if facts.suffix == ".png" else "image/jpeg"
    sets = {
        "metadata": ("text/csv", [f"{name}/{NAME}" for name in facts.splits], "The tables of all splits."),
        "images": (encoding, [f"{name}/*{facts.suffix}" for name in facts.splits], "The images of all splits."),
        "masks": ("image/png", [f"{MASKS}/*.png"], "Where each photo's images may differ from it."),
    }
    return files + [
        {
            "@type": "cr:FileSet",
            "@id": name,
            "name": name,
            "description": words,
            "encodingFormat": form,
            "includes": includes,
        }
        for name, (form, includes, words) in sets.items()
    ]


def _record_sets(facts: DatasetFacts) -> list[dict[str, Any]]:
    from pipeline.dataset.card import COLUMN_WORDS

    def field(record: str, name: str, kind: str, source: dict[str, Any], words: str) -> dict[str, Any]:
        return {
            "@type": "cr:Field",
            "@id": f"{record}/{name}",
            "name": name,
            "description": words,
            "dataType": kind,
            "source": source,
        }

    def column(name: str) -> dict[str, Any]:
        return {"fileSet": {"@id": "metadata"}, "extract": {"column": name}}

    def of_file(files: str, what: str, **transform: str) -> dict[str, Any]:
        taken: dict[str, Any] = {"fileSet": {"@id": files}, "extract": {"fileProperty": what}}
        return taken | ({"transform": transform} if transform else {})

    # An image is found by its path below the split's folder, as metadata.csv has it. Readers may transform it twice.
    below = r"^(?:[^/]+/)?([^/]+-step[0-9]+/.+)$"
    place = field("versions", "place", "sc:Text", of_file("images", "fullpath", regex=below), "The image's file.")
    place["references"] = {"fileSet": {"@id": "metadata"}, "extract": {"column": "file_name"}}
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "versions",
            "name": "versions",
            "description": "One record an image, with its facts.",
            "key": {"@id": "versions/place"},
            "field": [
                place,
                field("versions", "image", "sc:ImageObject", of_file("images", "content"), "The picture."),
                *(
                    field("versions", name, NUMBERS.get(name, "sc:Text"), column(name), COLUMN_WORDS[name])
                    for name in facts.columns
                    if name != "file_name"
                ),
            ],
        },
        {
            "@type": "cr:RecordSet",
            "@id": "masks-of-photos",
            "name": "masks-of-photos",
            "description": "One record a photo: where its images may differ from it.",
            "key": {"@id": "masks-of-photos/file"},
            "field": [
                field("masks-of-photos", "file", "sc:Text", of_file("masks", "fullpath"), "As the column mask has it."),
                field("masks-of-photos", "mask", "sc:ImageObject", of_file("masks", "content"), "0: unchanged."),
            ],
        },
    ]
