/** One detail of a refusal, as under `details.causes` of a Status object. */
export interface Cause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

/** What the API server answers to a request that it refuses. */
export class Refused extends Error {
  readonly status: number;
  readonly reason: string;
  readonly details: object;

  constructor(status: number, reason: string, message: string, causes?: readonly Cause[]) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.details = causes ? { causes } : {};
  }

  /** The body of the answer. */
  get body(): object {
    return statusObject(this.status, this.reason, this.message, this.details);
  }
}

/** The Status object of the API. */
export function statusObject(code: number, reason: string, message: string, details: object = {}): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    status: code < 300 ? 'Success' : 'Failure',
    message,
    reason,
    details,
    code,
  };
}

/** `what` is the resource with its group, and `name` the object: `clonesets.apps.kruise.io "web" not found`. */
export function notFound(what: string, name: string): Refused {
  return new Refused(404, 'NotFound', `${what} "${name}" not found`);
}

/** For a path that is served for nobody. */
export function unknownPath(): Refused {
  return new Refused(404, 'NotFound', 'the server could not find the requested resource');
}

export function alreadyExists(what: string, name: string): Refused {
  return new Refused(409, 'AlreadyExists', `${what} "${name}" already exists`);
}

export function conflict(what: string, name: string, why: string): Refused {
  return new Refused(409, 'Conflict', `Operation cannot be fulfilled on ${what} "${name}": ${why}`);
}

export function badRequest(message: string): Refused {
  return new Refused(400, 'BadRequest', message);
}

/** `causes` are the fields that are wrong. */
export function invalid(what: string, name: string, causes: readonly Required<Cause>[]): Refused {
  const problems = causes.map(({ field, message }) => `${field}: ${message}`);
  const list = problems.length === 1 ? problems.join() : `[${problems.join(', ')}]`;
  return new Refused(422, 'Invalid', `${what} "${name}" is invalid: ${list}`, causes);
}

/** A JSON patch whose `test` fails or that names a path that is not there; the server says nothing more about either. */
export function patchDoesNotFit(): Refused {
  return new Refused(422, 'Invalid', 'the server rejected our request due to an error in our request');
}

export function expired(message: string): Refused {
  return new Refused(410, 'Expired', message);
}
