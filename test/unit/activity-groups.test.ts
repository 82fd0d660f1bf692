import { describe, expect, it } from '@jest/globals';
import { joinActivities } from '../../process/activity-groups.ts';

const look = async () => 'look';
const report = async () => 'report';

describe('joinActivities', () => {
  it('registers every activity of every group under its own name', async () => {
    const activities = joinActivities({ requests: { look }, sidecars: { report } });
    expect(Object.keys(activities)).toEqual(['look', 'report']);
    expect(await activities.look()).toBe('look');
    expect(await activities.report()).toBe('report');
  });

  it('names the activity that two groups have, and both groups', () => {
    // @ts-expect-error: the compiler refuses it, too
    expect(() => joinActivities({ requests: { look, report }, sidecars: { report } })).toThrow(
      'Cannot register activity "report": groups "requests" and "sidecars" both have it',
    );
  });
});
