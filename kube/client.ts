import { type Dispatcher, Pool } from 'undici';
import { apiVersionOf, type KubeObject, type Resource } from '../api/core/meta.ts';
import { type Access, type Credentials, CredentialsError, type InCluster, loadCredentials } from './credentials.ts';
import { KubeError, noAnswer, toKubeError, watchError } from './failures.ts';
import { Limiter, Places } from './limiter.ts';

/** Names one object of a resource; `namespace` is absent for cluster-scoped objects. */
export interface NameRef {
  readonly namespace?: string;
  readonly name: string;
}

export interface RequestOptions {
  /** Cancels the call, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long the server may take for the whole answer; 30 s when absent. Time spent in the limiter counts only for a
   * call with a fence.
   */
  readonly deadlineMs?: number;
  /** Restricts the call to the leader. Absent: any process may make it. */
  readonly fence?: Fence;
  /** Called for each warning in the answer, a rejection included. */
  readonly onWarning?: (text: string) => void;
}

/** Keeps calls of a former leader from reaching the server. */
export interface Fence {
  /**
   * Asked when a write is about to be sent, after all waiting in queues. Returns the error to reject the call with, if
   * it must not be sent.
   */
  readonly hindrance: () => Error | undefined;
  /** Aborts calls that wait or are in flight. */
  readonly ended: AbortSignal;
}

export interface WriteOptions extends RequestOptions {
  readonly dryRun?: boolean;
  readonly fieldManager?: string;
  /** What the server does about unknown fields. Absent: its default, `Warn`. */
  readonly fieldValidation?: FieldValidation;
}

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface PatchOptions extends WriteOptions {
  readonly subresource?: string;
  /** Server-side apply only: take over fields that other managers own. */
  readonly force?: boolean;
}

export interface DeleteOptions extends RequestOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly propagationPolicy?: 'Orphan' | 'Background' | 'Foreground';
  readonly gracePeriodSeconds?: number;
  readonly dryRun?: boolean;
}

export type PatchType = 'merge' | 'json' | 'strategic' | 'apply';

export interface Selection {
  /** Absent or empty: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface ListOptions extends Selection, RequestOptions {
  readonly limit?: number;
  readonly continue?: string | undefined;
  /** Absent: a consistent list, at least as new as the last write before the call. */
  readonly resourceVersion?: string;
  /** A longer answer fails with reason `AnswerTooLarge`. 256 MiB when absent. */
  readonly maxBytes?: number;
  /** Request only the `metadata` of each object. */
  readonly metadataOnly?: boolean;
}

/** One page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** The version of the whole list; the same on every page. */
  readonly resourceVersion: string;
  /** Absent on the last page. */
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

export interface WatchOptions extends Selection {
  /** Events after this version are sent. */
  readonly resourceVersion: string;
  readonly signal?: AbortSignal | undefined;
  /**
   * When the server is to end the watch. Absent: after a random time of 5 to 10 minutes, so that watches do not all end
   * at once.
   */
  readonly timeoutSeconds?: number;
  /**
   * A watch without data for this long fails with reason `Silent`. 150 s when absent: bookmarks arrive about once a
   * minute.
   */
  readonly silenceMs?: number;
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** A bookmark: there are no further changes up to this version. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

export interface RawRequest extends RequestOptions {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  /** `application/json` when absent. */
  readonly contentType?: string;
}

/** Calls to one API server. Each rejects with a KubeError, or with the reason of the caller's signal. */
export interface KubeClient {
  get<T extends KubeObject>(resource: Resource, ref: NameRef, options?: RequestOptions): Promise<T>;
  list<T extends KubeObject>(resource: Resource, options?: ListOptions): Promise<Page<T>>;
  /** The namespace is the object's own. */
  create<T extends KubeObject>(resource: Resource, object: object, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(
    resource: Resource,
    ref: NameRef,
    type: PatchType,
    body: unknown,
    options?: PatchOptions,
  ): Promise<T>;
  delete(resource: Resource, ref: NameRef, options?: DeleteOptions): Promise<void>;
  /** The events of one watch. Ends when the server closes the watch, and throws when the connection breaks. */
  watch<T extends KubeObject>(resource: Resource, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /**
   * Any other call, such as evictions, tokens and discovery. The answer is parsed JSON, or text where it is not JSON.
   */
  request(method: string, path: string, options?: RawRequest): Promise<unknown>;
  /** Ends every call and watch, and closes every connection. */
  close(): Promise<void>;
}

export interface KubeClientOptions {
  /** One file, or several as in KUBECONFIG; absent: ~/.kube/config, or the pod's service account. */
  readonly kubeconfig?: string | undefined;
  /** The address of the API server for a pod of the cluster. */
  readonly inCluster?: InCluster | undefined;
  /** Used instead of a kubeconfig. */
  readonly credentials?: Credentials;
  readonly userAgent: string;
  /** Calls per second, and the burst. Watches and leases are not counted. */
  readonly qps: number;
  readonly burst: number;
  /** 30 s when absent. */
  readonly deadlineMs?: number;
  /** How many calls are in flight at once, 32 when absent. Watches and leases are not counted. */
  readonly connections?: number;
  /** Called for every request that was sent, for metrics; status 0 means that there was no answer. */
  readonly onCall?: (call: { readonly verb: string; readonly resource: string; readonly status: number }) => void;
}

/** A client with connections of its own; create one per process. Throws when there are no credentials. */
export function createKubeClient(options: KubeClientOptions): KubeClient {
  return new HttpKubeClient(options);
}

/**
 * The path of a collection, of one object of it, or of a subresource of that object. Throws NotFound for a name that no
 * object can have: its path would be that of something else, such as the collection or a subresource.
 */
export function pathOf(resource: Resource, ref: Partial<NameRef> = {}, subresource?: string): string {
  for (const name of [ref.namespace || undefined, ref.name]) {
    if (name === undefined || isPathSegment(name)) continue;
    const message = `${resource.plural} "${name}" not found: it is not a valid name`;
    throw new KubeError({ status: 404, reason: 'NotFound', message });
  }
  const root = resource.group === '' ? '/api' : `/apis/${resource.group}`;
  const namespace = resource.namespaced && ref.namespace ? `/namespaces/${encodeURIComponent(ref.namespace)}` : '';
  const name = ref.name === undefined ? '' : `/${encodeURIComponent(ref.name)}`;
  return `${root}/${resource.version}${namespace}/${resource.plural}${name}${subresource ? `/${subresource}` : ''}`;
}

/** Whether the API server accepts this name in a path; it decodes a path before it splits it. */
function isPathSegment(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/%]/.test(name);
}

const patchContentTypes: Readonly<Record<PatchType, string>> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml', // JSON is YAML
};

const defaultDeadlineMs = 30_000;
const defaultSilenceMs = 150_000;
const longestPauseSeconds = 60;
// An object can have 1.5 MiB in etcd, and JSON encoding makes it six times as large at most.
const longestWatchLine = 16 * 1024 * 1024;
const largestAnswer = 256 * 1024 * 1024;
const metadataList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

/** Connections that were opened with the same TLS settings. */
interface Connections {
  readonly tls: Access['tls'];
  /** Limited in number: calls wait for a free connection. */
  readonly calls: Dispatcher;
  /** Not limited: each watch occupies a connection, and lease updates must not wait behind other calls. */
  readonly priority: Dispatcher;
}

interface Call extends RawRequest {
  readonly method: string;
  readonly path: string;
  readonly watch?: true;
  /** `application/json` when absent. */
  readonly accept?: string;
  readonly maxBytes?: number;
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly warnings: readonly string[];
  readonly body: AsyncIterable<Buffer>;
}

class HttpKubeClient implements KubeClient {
  readonly #credentials: Credentials;
  readonly #limiter: Limiter;
  readonly #places: Places;
  readonly #userAgent: string;
  readonly #deadlineMs: number;
  readonly #callConnections: number;
  readonly #onCall: NonNullable<KubeClientOptions['onCall']>;
  readonly #closing = new AbortController();
  #connections: Connections | undefined;

  constructor(options: KubeClientOptions) {
    this.#credentials = options.credentials ?? loadCredentials(options.kubeconfig, undefined, options.inCluster);
    this.#limiter = new Limiter(options);
    this.#userAgent = options.userAgent;
    this.#deadlineMs = options.deadlineMs ?? defaultDeadlineMs;
    this.#callConnections = options.connections ?? 32;
    this.#places = new Places(this.#callConnections);
    this.#onCall = options.onCall ?? (() => undefined);
  }

  async get<T extends KubeObject>(resource: Resource, ref: NameRef, options: RequestOptions = {}): Promise<T> {
    return (await this.#call({ method: 'GET', path: pathOf(resource, ref), ...options })) as T;
  }

  async list<T extends KubeObject>(resource: Resource, options: ListOptions = {}): Promise<Page<T>> {
    const { signal, deadlineMs, fence, maxBytes, metadataOnly } = options;
    const answer = (await this.#call({
      method: 'GET',
      path: pathOf(resource, { ...(options.namespace && { namespace: options.namespace }) }),
      query: {
        ...selectors(options),
        limit: options.limit,
        continue: options.continue,
        resourceVersion: options.resourceVersion,
      },
      signal,
      ...(deadlineMs !== undefined && { deadlineMs }),
      ...(fence && { fence }),
      ...(maxBytes !== undefined && { maxBytes }),
      ...(metadataOnly && { accept: metadataList }),
    })) as ListAnswer<T>;

    // The server omits both in the items of built-in kinds; they are those of the list.
    const type = { apiVersion: apiVersionOf(resource), kind: resource.kind };
    return {
      items: (answer.items ?? []).map((item) => ({ ...type, ...item })),
      resourceVersion: answer.metadata.resourceVersion,
      ...(answer.metadata.continue && { continue: answer.metadata.continue }),
      ...(answer.metadata.remainingItemCount && { remainingItemCount: answer.metadata.remainingItemCount }),
    };
  }

  async create<T extends KubeObject>(resource: Resource, object: object, options: WriteOptions = {}): Promise<T> {
    const { metadata } = object as { readonly metadata?: { readonly namespace?: string } };
    const { dryRun, fieldManager, fieldValidation, ...rest } = options;
    const path = pathOf(resource, { ...(metadata?.namespace && { namespace: metadata.namespace }) });
    return (await this.#call({
      method: 'POST',
      path,
      query: writeQuery({ dryRun, fieldManager, fieldValidation }),
      body: { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object },
      ...rest,
    })) as T;
  }

  async patch<T extends KubeObject>(
    resource: Resource,
    ref: NameRef,
    type: PatchType,
    body: unknown,
    options: PatchOptions = {},
  ): Promise<T> {
    const { dryRun, fieldManager, fieldValidation, force, subresource, ...rest } = options;
    return (await this.#call({
      method: 'PATCH',
      path: pathOf(resource, ref, subresource),
      query: { ...writeQuery({ dryRun, fieldManager, fieldValidation }), force },
      body,
      contentType: patchContentTypes[type],
      ...rest,
    })) as T;
  }

  async delete(resource: Resource, ref: NameRef, options: DeleteOptions = {}): Promise<void> {
    const { preconditions, propagationPolicy, gracePeriodSeconds, dryRun, ...rest } = options;
    await this.#call({
      method: 'DELETE',
      path: pathOf(resource, ref),
      body: {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        ...(preconditions && { preconditions }),
        ...(propagationPolicy && { propagationPolicy }),
        ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
        ...(dryRun && { dryRun: ['All'] }),
      },
      ...rest,
    });
  }

  request(method: string, path: string, options: RawRequest = {}): Promise<unknown> {
    return this.#call({ method, path, ...options });
  }

  async *watch<T extends KubeObject>(resource: Resource, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const path = pathOf(resource, { ...(options.namespace && { namespace: options.namespace }) });
    const call: Call = {
      method: 'GET',
      path,
      watch: true,
      query: {
        ...selectors(options),
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: options.resourceVersion,
        timeoutSeconds: options.timeoutSeconds ?? 300 + Math.floor(Math.random() * 300),
      },
    };
    const silenceMs = options.silenceMs ?? defaultSilenceMs;
    const watchdog = new Watchdog([options.signal, this.#closing.signal]);
    try {
      watchdog.expectWithin(this.#deadlineMs, () =>
        noAnswer(nameOf(call), `no answer within ${inSeconds(this.#deadlineMs)}`),
      );
      const answer = await this.#ask(call, watchdog.signal);
      if (answer.status !== 200) throw await this.#refusal(call, answer);

      const silent = () => noAnswer(nameOf(call), `no data for ${inSeconds(silenceMs)}`, 'Silent');
      watchdog.expectWithin(silenceMs, silent);
      for await (const line of lines(answer.body, () => watchdog.heard())) yield parseEvent(nameOf(call), line);
    } catch (error) {
      throw watchdog.signal.aborted ? watchdog.signal.reason : wrap(nameOf(call), error);
    } finally {
      watchdog.release(); // also drops the connection when the consumer leaves early
    }
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const closed = noAnswer('', 'the client was closed');
    this.#closing.abort(closed);
    this.#limiter.close(closed);
    await Promise.all([this.#connections?.calls.destroy(), this.#connections?.priority.destroy()]);
  }

  async #call(call: Call): Promise<unknown> {
    call.signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    const deadlineMs = call.deadlineMs ?? this.#deadlineMs;
    const watchdog = new Watchdog([call.signal, call.fence?.ended, this.#closing.signal]);
    let leave: (() => void) | undefined;
    try {
      const expect = (what: string, ms: number) =>
        watchdog.expectWithin(ms, () => noAnswer(nameOf(call), `${what} within ${inSeconds(deadlineMs)}`));
      const begunAtMs = performance.now();
      // A leader's decision must not be sent much later, whatever has delayed it.
      if (call.fence) expect('not sent', deadlineMs);
      if (!isLease(call.path)) {
        leave = await this.#places.take(namespaceIn(call.path), watchdog.signal);
        await this.#limiter.admit(watchdog.signal);
      }
      expect('no answer', call.fence ? begunAtMs + deadlineMs - performance.now() : deadlineMs);
      const answer = await this.#ask(call, watchdog.signal);
      for (const warning of answer.warnings) call.onWarning?.(warning);
      if (answer.status >= 300) throw await this.#refusal(call, answer);
      return parseAnswer(await textOf(answer.body, call.maxBytes));
    } catch (error) {
      throw watchdog.signal.aborted ? watchdog.signal.reason : wrap(nameOf(call), error);
    } finally {
      leave?.();
      watchdog.release();
    }
  }

  /** Sends the request, and once more with renewed credentials after a 401. */
  async #ask(call: Call, signal: AbortSignal): Promise<Answer> {
    const access = await unlessAborted(this.#credentials.current(), signal);
    const answer = await this.#send(call, access, signal);
    if (answer.status !== 401) return answer;

    await textOf(answer.body);
    this.#credentials.renew(access);
    return this.#send(call, await unlessAborted(this.#credentials.current(), signal), signal);
  }

  async #send(call: Call, access: Access, signal: AbortSignal): Promise<Answer> {
    const about = { verb: call.watch ? 'WATCH' : call.method, resource: pluralIn(call.path) };
    try {
      const answer = await this.#exchange(call, access, signal);
      this.#onCall({ ...about, status: answer.status });
      return answer;
    } catch (error) {
      if (!(error instanceof NotSent)) this.#onCall({ ...about, status: 0 });
      throw error;
    }
  }

  async #exchange(call: Call, access: Access, signal: AbortSignal): Promise<Answer> {
    const connections = this.#connectionsFor(access);
    const pool = call.watch || isLease(call.path) ? connections.priority : connections.calls;
    const { statusCode, headers, body } = await pool.request({
      method: call.method,
      path: this.#credentials.server.pathname.replace(/\/$/, '') + call.path + queryString(call.query),
      headers: {
        ...access.headers,
        accept: call.accept ?? 'application/json',
        'user-agent': this.#userAgent,
        ...(call.body !== undefined && { 'content-type': call.contentType ?? 'application/json' }),
      },
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      // undici closes the connection after a DELETE with a body, in case the server takes the body for the next
      // request. API servers read the body: preconditions are in it.
      reset: false,
      signal,
      opaque: call.method === 'GET' ? undefined : call.fence,
    });
    return {
      status: statusCode,
      retryAfter: headerText(headers['retry-after']),
      warnings: warningsIn(headers.warning),
      body,
    };
  }

  async #refusal(call: Call, answer: Answer): Promise<KubeError> {
    const error = toKubeError(nameOf(call), answer.status, await textOf(answer.body), answer.retryAfter);
    // The server does not say which callers exceed its limit, so all calls pause.
    if (isOfWholeServer(call, error)) {
      this.#limiter.pause(Math.min(error.retryAfterSeconds ?? 1, longestPauseSeconds));
    }
    return error;
  }

  #connectionsFor(access: Access): Connections {
    const held = this.#connections;
    if (held?.tls === access.tls) return held;

    const open = (connections: number | null) =>
      new Pool(this.#credentials.server.origin, {
        connections,
        // The API server closes idle connections after 90 s. Closing earlier avoids writing to a connection that was
        // just closed.
        keepAliveTimeout: 60_000,
        keepAliveMaxTimeout: 60_000,
        allowH2: false, // over a single connection, watches and calls would block each other
        headersTimeout: 0, // the watchdog of each request counts instead
        bodyTimeout: 0,
        connect: { ...access.tls, timeout: 10_000, keepAlive: true, keepAliveInitialDelay: 30_000 },
      }).compose(askFence);
    this.#connections = { tls: access.tls, calls: open(this.#callConnections), priority: open(null) };
    // Requests in flight end on the old connections: watches within ten minutes.
    if (held) void Promise.allSettled([held.calls.close(), held.priority.close()]);
    return this.#connections;
  }
}

/** The fence kept a call from being sent. */
class NotSent extends Error {
  constructor(hindrance: Error) {
    super(hindrance.message, { cause: hindrance });
  }
}

/** Asks the fence of a call when it has its connection and nothing has been written yet. */
const askFence: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const { opaque: fence } = options as { readonly opaque?: Fence };
  if (fence === undefined) return dispatch(options, handler);
  return dispatch(options, {
    onRequestStart(...call) {
      const hindrance = fence.hindrance();
      if (hindrance) throw new NotSent(hindrance);
      handler.onRequestStart?.(...call);
    },
    onRequestUpgrade: (...call) => handler.onRequestUpgrade?.(...call),
    onResponseStart: (...call) => handler.onResponseStart?.(...call),
    onResponseData: (...call) => handler.onResponseData?.(...call),
    onResponseEnd: (...call) => handler.onResponseEnd?.(...call),
    onResponseError: (...call) => handler.onResponseError?.(...call),
  });
};

/**
 * Whether a 429 concerns all calls of this process, or only this object: a spent disruption budget, a namespaced
 * webhook, and a kind whose cache is being initialised do not concern other calls.
 */
function isOfWholeServer({ path }: Call, { type, message }: KubeError): boolean {
  if (type !== 'Throttled' || path.endsWith('/eviction')) return false;
  return !/\badmission webhook "|^storage is \(re\)initializing/.test(message);
}

/** The namespace in a path; "" for a cluster-scoped one. */
function namespaceIn(path: string): string {
  return /^\/(?:api|apis\/[^/]+)\/[^/]+\/namespaces\/([^/?]+)\//.exec(path)?.[1] ?? '';
}

/** The resource in a path, as a metric label: a bounded set of words, unlike paths. */
function pluralIn(path: string): string {
  return /^\/(?:api|apis\/[^/]+)\/[^/]+\/(?:namespaces\/[^/]+\/)?([^/?]+)/.exec(path)?.[1] ?? 'other';
}

/** The fields of a list that are read. */
interface ListAnswer<T> {
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items?: readonly T[] | null;
}

/** One signal for everything that can end a request: the caller, the client's shutdown, and deadlines. */
class Watchdog {
  readonly #controller = new AbortController();
  readonly #parents: readonly AbortSignal[];
  readonly #onAbort = (event: Event) => this.#controller.abort((event.target as AbortSignal).reason);
  #timer: NodeJS.Timeout | undefined;

  constructor(parents: readonly (AbortSignal | undefined)[]) {
    this.#parents = parents.filter((parent) => parent !== undefined);
    for (const parent of this.#parents) {
      if (parent.aborted) this.#controller.abort(parent.reason);
      else parent.addEventListener('abort', this.#onAbort);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborts the request after this time without an answer; replaces an earlier limit. */
  expectWithin(afterMs: number, why: () => KubeError): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(why()), afterMs);
  }

  heard(): void {
    this.#timer?.refresh();
  }

  release(): void {
    clearTimeout(this.#timer);
    for (const parent of this.#parents) parent.removeEventListener('abort', this.#onAbort);
    this.#controller.abort(released); // a new error, with its stack trace, would cost more than parsing the answer
  }
}

const released = new Error('the call is over');

/** A credential plugin may hang; the request that waits for it must not. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * The lines of a body, without line ends. Lines are split as bytes, so that a character that is split between two
 * chunks stays whole. An incomplete last line means that the stream broke.
 */
async function* lines(body: AsyncIterable<Buffer>, onChunk: () => void): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of body) {
    onChunk();
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const rest = chunk.subarray(start, end);
      yield begun.length === 0 ? rest.toString() : Buffer.concat([...begun, rest]).toString();
      begun = [];
      begunBytes = 0;
      start = end + 1;
    }
    if (start < chunk.length) {
      begun.push(chunk.subarray(start));
      begunBytes += chunk.length - start;
      if (begunBytes > longestWatchLine) throw new TooLarge(`an event is longer than ${longestWatchLine} bytes`);
    }
  }
  if (begunBytes > 0) throw new Error('the watch ended in the middle of an event');
}

function parseEvent<T extends KubeObject>(request: string, line: string): WatchEvent<T> {
  const event = parseJson(line) as { readonly type: string; readonly object: T };
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type: event.type, object: event.object };
    case 'BOOKMARK':
      return { type: 'BOOKMARK', resourceVersion: event.object.metadata.resourceVersion };
    case 'ERROR':
      throw watchError(request, event.object);
    default:
      throw new Error('the watch sent an event of an unknown type');
  }
}

/** JSON.parse quotes the text that it cannot parse, and an answer may contain a secret. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('the answer is not JSON');
  }
}

/** Some servers answer `/healthz` and `/version` with plain text. */
function parseAnswer(text: string): unknown {
  return /^\s*[[{"]/.test(text) ? parseJson(text) : text;
}

async function textOf(body: AsyncIterable<Buffer>, most = largestAnswer): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > most) throw new TooLarge(`the answer is longer than ${most} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

class TooLarge extends Error {}

/** The error of a request that failed in transit. undici's own errors say what happened, and contain no headers. */
function wrap(request: string, error: unknown): unknown {
  if (error instanceof KubeError) return error;
  if (error instanceof NotSent) return error.cause;
  if (error instanceof TooLarge) return noAnswer(request, error.message, 'AnswerTooLarge');
  if (error instanceof CredentialsError) return noAnswer(request, error.message);
  // Node tries several addresses at once; the AggregateError itself has no useful message.
  const { message, name, errors } = error as Partial<AggregateError>;
  return noAnswer(request, message || (errors?.[0] as Partial<Error> | undefined)?.message || name || 'unknown reason');
}

function nameOf(call: Call): string {
  return `${call.method} ${call.path.split('?', 1)[0]}`;
}

function isLease(path: string): boolean {
  return path.startsWith('/apis/coordination.k8s.io/');
}

function selectors({ labelSelector, fieldSelector }: Selection): NonNullable<RawRequest['query']> {
  return { labelSelector: labelSelector || undefined, fieldSelector: fieldSelector || undefined };
}

function writeQuery({
  dryRun,
  ...query
}: {
  readonly dryRun: boolean | undefined;
  readonly fieldManager: string | undefined;
  readonly fieldValidation: FieldValidation | undefined;
}): NonNullable<RawRequest['query']> {
  return { dryRun: dryRun ? 'All' : undefined, ...query };
}

function queryString(query: RawRequest['query'] = {}): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parts.set(name, String(value));
  return parts.size === 0 ? '' : `?${parts}`;
}

function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** The texts of `Warning: 299 - "text"` headers (RFC 7234, 5.5), of which the API server sends one for each text. */
function warningsIn(headers: string | string[] | undefined): readonly string[] {
  return [headers ?? []].flat().flatMap((header) => {
    return [...header.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) => text.replace(/\\(.)/g, '$1'));
  });
}

function inSeconds(ms: number): string {
  return `${ms / 1000} s`;
}
