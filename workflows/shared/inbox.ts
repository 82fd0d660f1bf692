import { condition } from '@temporalio/workflow';

/** Events for one reader, in order of arrival. */
export interface Inbox<Event> {
  readonly put: (event: Event) => void;
  /** Whether all events have been taken. */
  readonly isEmpty: () => boolean;
  /** Waits for an event, then takes all events. */
  readonly take: () => Promise<readonly Event[]>;
}

/** An empty inbox. */
export function newInbox<Event>(): Inbox<Event> {
  let waiting: Event[] = [];
  return {
    put: (event) => {
      waiting.push(event);
    },
    isEmpty: () => waiting.length === 0,
    take: async () => {
      await condition(() => waiting.length > 0);
      const taken = waiting;
      waiting = [];
      return taken;
    },
  };
}
