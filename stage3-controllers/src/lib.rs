//! stage3-controllers.
