//! stage1-kubectl.
