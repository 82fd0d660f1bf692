import { describe, expect, it } from '@jest/globals';
import {
  causeOf,
  describeErrors,
  type FieldError,
  forbidden,
  invalid,
  messageOf,
  newErrors,
  notSupported,
  required,
} from '../../api/core/field-error.ts';

const plain: FieldError = { field: 'spec.podName', detail: 'pod "web" is not found' };

describe('a field error', () => {
  it.each<readonly [FieldError, string]>([
    [invalid('spec.replicas', -1, 'must not be negative'), 'Invalid value: -1: must not be negative'],
    [invalid('spec.name', undefined, 'must be a string'), 'Invalid value: null: must be a string'],
    [required('spec.selector', 'selects the pods'), 'Required value: selects the pods'],
    [forbidden('spec.host', 'is not taken'), 'Forbidden: is not taken'],
    [notSupported('spec.type', 'x', ['a', 'b']), 'Unsupported value: "x": supported values: "a", "b"'],
    [plain, 'pod "web" is not found'],
  ])('reads as Kubernetes words it (%#)', (error, message) => {
    expect(messageOf(error)).toBe(message);
    const reason = error.type ?? 'FieldValueInvalid';
    expect(causeOf(error)).toEqual({ reason, field: error.field, message });
  });

  it('shows the beginning of a large value', () => {
    const message = messageOf(invalid('spec.images', 'x'.repeat(100_000), 'is too long'));
    expect(message).toBe(`Invalid value: "${'x'.repeat(199)}…: is too long`);
  });

  it('stands in one line with others, each with its field', () => {
    expect(describeErrors([plain, required('spec', 'is empty')])).toBe(
      'spec.podName: pod "web" is not found; spec: Required value: is empty',
    );
  });

  it('is new unless the object has had it before', () => {
    const [old, other] = [invalid('spec.a', 1, 'is odd'), invalid('spec.a', 3, 'is odd')];
    expect(newErrors([invalid('spec.a', 1, 'is odd')], [old, other, plain])).toEqual([other, plain]);
  });
});
