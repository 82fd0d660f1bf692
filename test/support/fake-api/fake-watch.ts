import type { ServerResponse } from 'node:http';
import type { WatchOptions } from '../../../kube/client.ts';
import { statusObject } from './refusals.ts';
import type { ObjectStore, StoreEvent } from './store.ts';

/** One open watch, as the server holds it. */
export class FakeWatch {
  readonly #response: ServerResponse;
  #isStalled = false;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** Begins with what has happened since the version asked for, and goes on until the connection closes. */
  follow(store: ObjectStore, collection: string, options: WatchOptions, bookmarkEveryMs: number | undefined): void {
    this.#response.writeHead(200, { 'content-type': 'application/json' });
    this.#response.flushHeaders();
    const unfollow = store.follow(collection, options, ({ type, object }) => this.send(eventLine(type, object)));
    const bookmarks = bookmarkEveryMs && setInterval(() => this.bookmark(store.version), bookmarkEveryMs);
    this.#response.on('close', () => {
      unfollow();
      clearInterval(bookmarks);
    });
  }

  /** Sends any text, unless stalled or ended. */
  send(text: string | Buffer): void {
    if (!this.#isStalled && !this.#response.writableEnded) this.#response.write(text);
  }

  /** Says that nothing has changed up to this version. */
  bookmark(resourceVersion: string): void {
    this.send(`${JSON.stringify({ type: 'BOOKMARK', object: { kind: 'Thing', metadata: { resourceVersion } } })}\n`);
  }

  /** Says nothing more, but stays open: what a half-dead network looks like. */
  stall(): void {
    this.#isStalled = true;
  }

  /** Ends in order, as after timeoutSeconds. */
  end(): void {
    this.#response.end();
  }

  /** Ends in order, but in the middle of a line. */
  endInHalfALine(): void {
    this.send('{"type":"MODIFIED","object":{"metadata":{"na');
    this.end();
  }

  /** Breaks off. */
  drop(): void {
    this.#response.destroy();
  }

  /** Ends with an event of type ERROR. */
  fail(code: number, reason: string, message: string): void {
    this.send(`${JSON.stringify({ type: 'ERROR', object: statusObject(code, reason, message) })}\n`);
    this.end();
  }
}

/** One line of a watch. */
export function eventLine(type: StoreEvent['type'], object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}
