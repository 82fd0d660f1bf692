import { condition } from '@temporalio/workflow';

/** News for one reader, in the order in which it came. */
export interface Inbox<News> {
  readonly put: (news: News) => void;
  /** Whether everything that has come so far is taken. */
  readonly isEmpty: () => boolean;
  /** Waits until there is news, then takes all of it. */
  readonly take: () => Promise<readonly News[]>;
}

/** An empty inbox. */
export function newInbox<News>(): Inbox<News> {
  let waiting: News[] = [];
  return {
    put: (news) => {
      waiting.push(news);
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
