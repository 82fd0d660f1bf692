import { randomUUID } from 'node:crypto';
import { setTimeout as timeout } from 'node:timers/promises';
import { containerFieldPath, type Event, type EventText, eventBody } from '../api/core/event.ts';
import { type PodRef, qualifiedName } from '../api/core/refs.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { backOff, retryAfterMs } from '../kube/back-off.ts';
import type { KubeClient } from '../kube/client.ts';
import { mayPassSoon } from '../kube/events.ts';
import { isAlreadyExists } from '../kube/failures.ts';

/** The maximum number of queued Events. When the API server is unreachable for long, the oldest ones are dropped. */
const longestQueue = 500;

const retryMs = { first: 250, most: 10_000 } as const;

export interface EventSenderOptions {
  readonly client: Pick<KubeClient, 'create'>;
  /** The default of `source.component`. */
  readonly component: string;
  readonly nodeName: string;
  readonly log: { warn(fields: object, message: string): void };
  readonly now?: () => Date;
}

/**
 * Writes Events on pods about their containers. `say` only queues an Event; Events are sent one after the other in the
 * background, and retried while the API server is unreachable, each with the time at which it was queued.
 */
export class EventSender {
  readonly #options: EventSenderOptions;
  readonly #queue: Event[] = [];
  readonly #ended = new AbortController();
  #sending: Promise<void> | undefined;

  constructor(options: EventSenderOptions) {
    this.#options = options;
  }

  /** `component` replaces the default of the options. */
  say(pod: PodRef, container: string, text: EventText, component = this.#options.component): void {
    this.#queue.push(this.#event(pod, container, text, component));
    if (this.#queue.length > longestQueue) this.#queue.shift();
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined;
    });
  }

  /** Resolves when everything is sent, or dropped because the signal aborts; nothing is sent afterwards. */
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
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        await client.create(kubeResource.events, event, { signal });
        return;
      } catch (error) {
        // An earlier attempt succeeded, and its answer was lost.
        if (isAlreadyExists(error) || signal.aborted) return;
        if (!mayPassSoon(error)) {
          log.warn(
            { err: error, pod: qualifiedName(event.involvedObject), reason: event.reason },
            'Cannot send an Event',
          );
          return;
        }
        const waitMs = Math.max(backOff(retryMs, failures), retryAfterMs(error));
        await timeout(waitMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  #event(pod: PodRef, container: string, { type, reason, message }: EventText, component: string): Event {
    const { nodeName, now = () => new Date() } = this.#options;
    const about = { apiVersion: 'v1', kind: 'Pod', metadata: { ...pod, resourceVersion: '', creationTimestamp: '' } };
    // The key is chosen once, so that an Event which is sent twice is created once.
    const key = randomUUID().slice(0, 18);
    const body = eventBody({ about, component, host: nodeName, type, reason, message, key, atMs: now().getTime() });
    return {
      ...body,
      involvedObject: { ...body.involvedObject, fieldPath: containerFieldPath(container) },
      reportingInstance: nodeName,
    };
  }
}
