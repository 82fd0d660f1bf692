import { condition } from '@temporalio/workflow';

/** Events for one reader, in the order in which they came. */
export interface Inbox<Event> {
  readonly put: (event: Event) => void;
  /** Whether everything that has come so far is taken. */
  readonly isEmpty: () => boolean;
  /** Waits until there is an event, then takes all there are. */
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
