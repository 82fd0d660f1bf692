import { randomUUID } from 'node:crypto';
import { setTimeout as timeout } from 'node:timers/promises';
import { containerFieldPath, type Event, type EventText } from '../api/core/event.ts';
import { type PodRef, qualifiedName } from '../api/core/refs.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { KubeClient } from '../kube/client.ts';
import { isAlreadyExists, KubeError } from '../kube/failures.ts';

/** What waits at most. When the API server is away for long, the oldest news is worth least. */
const longestQueue = 500;

const retryMs = { first: 250, most: 10_000 } as const;

export interface EventSenderOptions {
  readonly client: Pick<KubeClient, 'create'>;
  /** As `source.component`, where nobody else is named. */
  readonly component: string;
  readonly nodeName: string;
  readonly log: { warn(fields: object, message: string): void };
  readonly now?: () => Date;
}

/**
 * Says on pods what happens to their containers. `say` only notes it down; one Event after the other is then sent in the
 * background, again and again while the API server is away, with the time at which it was said.
 */
export class EventSender {
  readonly #options: EventSenderOptions;
  readonly #queue: Event[] = [];
  readonly #ended = new AbortController();
  #sending: Promise<void> | undefined;

  constructor(options: EventSenderOptions) {
    this.#options = options;
  }

  /** `component` is who says it, when it is not the one of the options. */
  say(pod: PodRef, container: string, text: EventText, component = this.#options.component): void {
    this.#queue.push(this.#event(pod, container, text, component));
    if (this.#queue.length > longestQueue) this.#queue.shift();
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined;
    });
  }

  /** Resolves when everything is sent, or given up because the signal aborts; nothing is sent afterwards. */
  async end(signal: AbortSignal): Promise<void> {
    const giveUp = () => this.#ended.abort();
    signal.addEventListener('abort', giveUp);
    await this.#sending;
    signal.removeEventListener('abort', giveUp);
    this.#ended.abort();
  }

  async #send(): Promise<void> {
    for (let event = this.#queue.shift(); event !== undefined; event = this.#queue.shift()) await this.#deliver(event);
  }

  async #deliver(event: Event): Promise<void> {
    const { client, log } = this.#options;
    const { signal } = this.#ended;
    for (let pauseMs: number = retryMs.first; !signal.aborted; pauseMs = Math.min(2 * pauseMs, retryMs.most)) {
      try {
        await client.create(kubeResource.events, event, { signal });
        return;
      } catch (error) {
        // The answer to an earlier attempt was lost.
        if (isAlreadyExists(error) || signal.aborted) return;
        if (!(error instanceof KubeError) || (error.type !== 'Unreachable' && error.type !== 'Throttled')) {
          log.warn(
            { err: error, pod: qualifiedName(event.involvedObject), reason: event.reason },
            'Cannot send an Event',
          );
          return;
        }
        const waitMs = Math.max(pauseMs, (error.retryAfterSeconds ?? 0) * 1_000);
        await timeout(waitMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  #event(pod: PodRef, container: string, { type, reason, message }: EventText, component: string): Event {
    const { nodeName, now = () => new Date() } = this.#options;
    const at = now()
      .toISOString()
      .replace(/\.\d+Z$/, 'Z');
    return {
      apiVersion: 'v1',
      kind: 'Event',
      // The name is chosen once, so that an Event which is sent twice exists once.
      metadata: { name: `${pod.name.slice(0, 200)}.${randomUUID().slice(0, 18)}`, namespace: pod.namespace },
      involvedObject: {
        apiVersion: 'v1',
        kind: 'Pod',
        namespace: pod.namespace,
        name: pod.name,
        uid: pod.uid,
        fieldPath: containerFieldPath(container),
      },
      type,
      reason,
      // The API server takes no longer ones.
      message: message.slice(0, 1_024),
      source: { component, host: nodeName },
      reportingComponent: component,
      reportingInstance: nodeName,
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    };
  }
}
