"""The description of the HTTP door, for people and for programs (OpenAPI 3.1)."""

from __future__ import annotations

from typing import Any

import sfumato

_TEXT = {"type": "string"}
_NUMBER: dict[str, Any] = {
    "type": ["string", "number", "null"],
    "description": "A number, preferably as a string.",
}
_ERRORS = {
    400: "The request cannot be read.",
    401: "No such database, or the token gives no access to it.",
    402: "The budget, a share, or a promise does not allow it. Nothing was spent.",
    403: "The role does not allow it, or the analyst is suspended.",
    406: "No such response format.",
    408: "The request did not arrive in time.",
    409: "The idempotency key was used for another question or price.",
    413: "The request is too large.",
    422: "The question is refused, or an argument is outside its range. Nothing was spent.",
    429: "Too many requests: see Retry-After.",
    500: "The query could not be completed; its charge stays.",
    503: "Ledger, source or policy cannot be used now.",
}
_PRICE: dict[str, Any] = {
    "epsilon": _NUMBER,
    "rho": _NUMBER,
    "delta": _NUMBER,
    "tune": _NUMBER,
    "within": {
        "type": ["string", "number", "null"],
        "description": 'Instead of a price: the error that the numbers may have at 95%, such as 50, "2%" or '
        '"n=50, mean=2%".',
    },
    "most": {
        "type": ["string", "number", "null"],
        "description": "What a question asked for by its error may cost at most.",
    },
    "dialect": {
        "type": ["string", "null"],
        "description": "Of the question: duckdb, postgres, bigquery, tsql, mysql or snowflake.",
    },
    "parameters": {
        "type": ["array", "null"],
        "items": {"type": ["string", "number", "boolean", "null", "object", "array"]},
        "description": 'Values for $1, $2, ...; a date is {"date": "2024-01-31"}; a list is for = ANY ($1).',
    },
}
_QUESTION: dict[str, Any] = {
    "type": "object",
    "required": ["sql"],
    "properties": {"sql": {"type": "string", "examples": ["SELECT COUNT(*) AS n FROM visits"]}, **_PRICE},
    "additionalProperties": False,
}
_LEVEL = {
    "type": ["string", "number", "null"],
    "description": "Confidence level of the intervals, such as 0.95.",
}
_RELEASE: dict[str, Any] = {
    "type": "object",
    "required": ["columns", "rows", "charged", "left", "receipt", "notes", "currency"],
    "properties": {
        "columns": {"type": "array", "items": _TEXT},
        "rows": {"type": "array", "items": {"type": "object"}},
        "types": {"type": "array", "items": _TEXT, "description": "The type of every column."},
        "ends": {
            "type": "array",
            "items": {"enum": [-1, 0, 1]},
            "description": "Which columns are ends of an interval: -1 lower, 1 upper.",
        },
        "charged": _TEXT,
        "left": _TEXT,
        "currency": _TEXT,
        "receipt": {"type": "integer"},
        "head": _TEXT,
        "level": _TEXT,
        "gains": {"type": "array", "items": _TEXT},
        "notes": {"type": "array", "items": _TEXT},
    },
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "A retry under the same key returns the stored release: no second draw, no second charge.",
}
_FORMAT = {
    "name": "format",
    "in": "query",
    "required": False,
    "schema": {"type": "string", "enum": ["json", "csv", "arrow"]},
    "description": "Instead of an Accept header.",
}
_OBJECT = {"type": "object"}


def described() -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}

    def add(
        method: str,
        path: str,
        summary: str,
        *,
        body: dict[str, Any] | None = None,
        answer: dict[str, Any] | None = None,
        forms: tuple[str, ...] = ("application/json",),
        parameters: tuple[dict[str, Any], ...] = (),
        status: int = 200,
        errors: tuple[int, ...] = (401, 403, 429, 500, 503),
        takes: str = "application/json",
    ) -> None:
        places = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        named = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in places]
        problem = {"$ref": "#/components/schemas/Error"}
        found: dict[str, Any] = {
            "summary": summary,
            "operationId": "_".join([method, *(part.strip("{}") for part in path.split("/") if part)]),
            "responses": {
                str(status): {
                    "description": "Success.",
                    "content": {
                        form: {"schema": answer or _OBJECT} if "json" in form else {} for form in forms
                    },
                },
                **{
                    str(code): {
                        "description": _ERRORS[code],
                        "content": {"application/json": {"schema": problem}},
                    }
                    for code in errors
                },
            },
        }
        if named or parameters:
            found["parameters"] = [*named, *parameters]
        if body is not None:
            found["requestBody"] = {"required": True, "content": {takes: {"schema": body}}}
        if errors:
            found["security"] = [{"token": []}, {"basic": []}]
        paths.setdefault(path, {})[method] = found

    act, asked = "/v1/{database}", (400, 401, 402, 403, 406, 408, 409, 413, 422, 429, 500, 503)
    forms = ("application/json", "text/csv", "application/vnd.apache.arrow.stream")
    body_errors = (400, 401, 403, 408, 413, 422, 429, 500, 503)
    add("get", "/", "Name and version of the server.", errors=())
    add("get", "/health", "Whether the server is ready.", errors=())
    paths["/health"]["get"]["responses"]["503"] = {
        "description": "New questions are refused: a policy is wrong, or a ledger cannot be written or read."
    }
    add("get", "/openapi.json", "This description.", errors=())
    add("get", "/metrics", "Counts, without private values (owner, auditor).", forms=("text/plain",))
    add("get", "/v1/databases", "The databases that a token gives access to.")
    add("get", f"{act}/schema", "Tables and columns as the policy declares them.")
    add("post", f"{act}/explain", "Price, error and derivation. Free.", body=_QUESTION, errors=asked)
    release = {**_QUESTION, "properties": {**_QUESTION["properties"], "level": _LEVEL}}
    add(
        "post",
        f"{act}/release",
        "Ask: charged once, free when it is asked again.",
        body=release,
        answer=_RELEASE,
        forms=forms,
        parameters=(_KEY, _FORMAT),
        errors=asked,
    )
    several = {
        "type": "object",
        "required": ["questions"],
        "properties": {
            "questions": {"type": "array", "items": _QUESTION, "minItems": 1, "maxItems": 100},
            "delta": _NUMBER,
            "level": _LEVEL,
        },
        "additionalProperties": False,
    }
    add(
        "post",
        f"{act}/batch",
        "Several questions as one charge.",
        body=several,
        parameters=(_KEY,),
        errors=asked,
    )
    add("get", f"{act}/budget", "What was spent and what is left.")
    add(
        "get",
        f"{act}/history",
        "Every charge; analysts see their own.",
        forms=forms[:2],
        parameters=(_FORMAT,),
        errors=(401, 403, 406, 429, 500, 503),
    )
    promise = {
        "type": "object",
        "required": ["secret", "advantage"],
        "properties": {
            "secret": {"type": "string", "examples": ["patients.age"]},
            "advantage": {"type": ["string", "number"], "examples": ["0.1"]},
            "within": _NUMBER,
            "above": _NUMBER,
            "prior": {"type": ["string", "object", "array", "null"]},
            "metric": {"type": ["string", "null"]},
            "group": {"type": ["integer", "null"]},
        },
        "additionalProperties": False,
    }
    add("post", f"{act}/suggest", "The epsilon that keeps a promise.", body=promise, errors=body_errors)
    add("get", f"{act}/policy", "The policy (owner).", forms=("application/toml",))
    add(
        "put",
        f"{act}/policy",
        "Replace the policy (owner).",
        body=_TEXT,
        takes="application/toml",
        errors=body_errors,
    )
    last = {"name": "last", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
    add(
        "get",
        f"{act}/access",
        "The last lines of the access log (auditor, owner).",
        parameters=(last,),
        errors=(400, 401, 403, 429, 500, 503),
    )
    days = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 3650}
    exchange = {"type": "object", "properties": {"days": days}, "additionalProperties": False}
    add(
        "post",
        f"{act}/tokens",
        "A token for a password (Basic) or for a one-time token.",
        body=exchange,
        status=201,
        errors=body_errors,
    )
    add("get", f"{act}/running", "Questions that were charged and are not released yet (owner).")
    add("get", f"{act}/people", "List the users (owner, auditor).")
    person = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _TEXT,
            "role": {"type": ["string", "null"], "enum": ["owner", "analyst", "auditor", None]},
            "days": days,
        },
        "additionalProperties": False,
    }
    add("post", f"{act}/people", "Add a user (owner).", body=person, status=201, errors=body_errors)
    name_errors = (401, 403, 422, 429, 500, 503)
    add("delete", f"{act}/people/{{name}}", "Revoke a user's access (owner).", errors=name_errors)
    add("post", f"{act}/people/{{name}}/review", "Review a suspended analyst (owner).", errors=name_errors)
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {"type": _TEXT, "message": _TEXT},
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato",
            "version": sfumato.__version__,
            "description": "See the population, never the person: SQL about people, answered with noise that "
            "hides every one of them, out of one budget.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }
