// The platform's own calls to an API server, as administrator.
import type { Agent } from 'undici';
import { request } from 'undici';

/** An API server with credentials. */
export interface ApiServer {
  readonly url: string;
  readonly dispatcher: Agent;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

/** An unsuccessful answer. */
class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** One call with JSON body and answer. */
export async function call<T>(
  api: ApiServer,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  contentType = 'application/json',
): Promise<T> {
  const answer = await request(`${api.url}${path}`, {
    method,
    dispatcher: api.dispatcher,
    headers: {
      ...api.headers,
      accept: 'application/json',
      'user-agent': 'windlass-local',
      'content-type': contentType,
    },
    body: body === undefined ? null : JSON.stringify(body),
    headersTimeout: 60_000,
    bodyTimeout: 60_000,
  });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) {
    throw new ApiError(answer.statusCode, `${method} ${path}: ${answer.statusCode} ${text.slice(0, 500)}`);
  }
  return JSON.parse(text) as T;
}

/** Like `call` with GET, but returns `undefined` for absent objects. */
export async function find<T>(api: ApiServer, path: string): Promise<T | undefined> {
  try {
    return await call<T>(api, 'GET', path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

/** Creates or changes one object by server-side apply; the path must contain its name. */
export function apply<T>(api: ApiServer, path: string, object: object): Promise<T> {
  const query = 'fieldManager=windlass-local&force=true';
  return call<T>(api, 'PATCH', `${path}?${query}`, object, 'application/apply-patch+yaml');
}
